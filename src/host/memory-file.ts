import { closeSync, writeSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';

export type MakeMemoryFile = (name: string, content: string) => number;

/** MFD_CLOEXEC of memfd_create(2). */
const closeOnExec = 1;

let makeMemoryFile: Promise<MakeMemoryFile> | undefined;

/**
 * Files that have no name and are never on a disk, for programs that read a secret at their start: a child that is given the
 * descriptor opens it as `/dev/fd/N`, as often as it wants. Callers close what they got. Rejects when the C library cannot be loaded.
 */
export function loadMemoryFiles(): Promise<MakeMemoryFile> {
  makeMemoryFile ??= import('koffi').then(({ default: koffi }) => {
    const create = koffi.load(null).func('int memfd_create(const char *name, unsigned int flags)');
    return (name, content) => {
      const fd: number = create(name, closeOnExec);
      if (fd < 0) throw new Error(`a file in memory cannot be made: ${getSystemErrorName(-koffi.errno())}`);
      return filled(fd, content);
    };
  });
  return makeMemoryFile;
}

function filled(fd: number, content: string): number {
  try {
    const bytes = Buffer.from(content);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
