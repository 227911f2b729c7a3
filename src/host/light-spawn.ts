import { closeSync, existsSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import path from 'node:path';
import { getSystemErrorName } from 'node:util';
import { sleep } from '../base/index.ts';

/**
 * Programs started by posix_spawn(3), which borrows this process' memory until the program is loaded. Node.js forks, which copies the tables of all its memory:
 * two to six milliseconds of the event loop for each program, about a third of that here. The calling thread starts it, so it begins in that thread's namespaces.
 */

export interface LightProgram {
  readonly program: string;
  readonly args: readonly string[];
  /** The whole environment; its `PATH` is searched for the program. */
  readonly env: Readonly<Record<string, string>>;
  readonly input: string;
}

export type ProgramEnd =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'killed'; readonly signal: string };

/** Who starts it reads both streams and then waits for its end: until then it is a zombie, and its id is nobody else's. */
export interface LightChild {
  readonly stdout: Socket;
  readonly stderr: Socket;
  /** SIGKILL. */
  kill(): void;
  /** Once only. For after both streams are closed, which is the end of nearly every program. */
  ended(): Promise<ProgramEnd>;
}

export type LightSpawn = (program: LightProgram) => LightChild;

const closeOnExec = { file: 0o2000000, memory: 1 } as const;
const withoutWaiting = 1;
/** POSIX_SPAWN_SETSIGDEF, POSIX_SPAWN_SETSIGMASK: Node.js ignores SIGPIPE, and programs would go on to do so. */
const freshSignals = 0x04 | 0x08;
/** More than the C libraries' `posix_spawnattr_t`, `posix_spawn_file_actions_t` and `sigset_t` have. */
const structureBytes = 1024;

let lightSpawn: Promise<LightSpawn> | undefined;

/** Loads the C library's calls at the first use. Rejects when they cannot be loaded. */
export function loadLightSpawn(): Promise<LightSpawn> {
  lightSpawn ??= import('koffi').then(({ default: koffi }) => {
    const library = koffi.load(null);
    const calls = callsOf(
      (declaration) => library.func(declaration),
      () => koffi.errno(),
    );
    return (program) => start(calls, program);
  });
  return lightSpawn;
}

type Calls = ReturnType<typeof callsOf>;

type Declare = (declaration: string) => (...values: unknown[]) => number;

function callsOf(call: Declare, errno: () => number) {
  const attributes = Buffer.alloc(structureBytes);
  call('int posix_spawnattr_init(void *attributes)')(attributes);
  call('int posix_spawnattr_setflags(void *attributes, short flags)')(attributes, freshSignals);
  call('int posix_spawnattr_setsigdefault(void *attributes, const void *signals)')(
    attributes,
    Buffer.alloc(structureBytes, 0xff),
  );
  call('int posix_spawnattr_setsigmask(void *attributes, const void *signals)')(
    attributes,
    Buffer.alloc(structureBytes),
  );
  return {
    attributes,
    errno,
    pipe: call('int pipe2(_Out_ int *ends, int flags)'),
    memoryFile: call('int memfd_create(const char *name, unsigned int flags)'),
    seek: call('int64_t lseek(int fd, int64_t offset, int whence)'),
    beginActions: call('int posix_spawn_file_actions_init(void *actions)'),
    duplicate: call('int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)'),
    changeDirectory: call('int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)'),
    endActions: call('int posix_spawn_file_actions_destroy(void *actions)'),
    spawn: call(
      'int posix_spawn(_Out_ int *pid, const char *path, const void *actions, const void *attributes, const char **args, const char **env)',
    ),
    wait: call('int waitpid(int pid, _Out_ int *status, int options)'),
  };
}

/** Throws an Error with the system's word. */
function start(calls: Calls, program: LightProgram): LightChild {
  const file = fileOf(program);
  const own: number[] = [];
  const childs: number[] = [];
  const openPipe = () => {
    const [read, write] = pipe(calls);
    own.push(read);
    childs.push(write);
    return read;
  };
  try {
    childs.push(inputFile(calls, program.input));
    const [output, errors] = [openPipe(), openPipe()];
    const pid = spawn(calls, file, program, childs);
    return childOf(calls, pid, output, errors);
  } catch (error) {
    for (const fd of own) closeSync(fd);
    throw error;
  } finally {
    for (const fd of childs) closeSync(fd);
  }
}

function fileOf({ program, env }: LightProgram): string {
  const places = (env.PATH ?? '').split(':').map((directory) => path.join(directory, program));
  const file = places.find((place) => existsSync(place));
  if (file !== undefined) return file;
  throw new Error('ENOENT');
}

function checked(calls: Calls, result: number): number {
  if (result < 0) throw new Error(getSystemErrorName(-calls.errno()));
  return result;
}

/** In memory: the program reads as much of it as it wants, and nobody waits for that. */
function inputFile(calls: Calls, input: string): number {
  const fd = checked(calls, calls.memoryFile('input', closeOnExec.memory));
  try {
    const bytes = Buffer.from(input);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    checked(calls, calls.seek(fd, 0, 0));
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function pipe(calls: Calls): [number, number] {
  const ends: [number, number] = [-1, -1];
  checked(calls, calls.pipe(ends, closeOnExec.file));
  return ends;
}

function spawn(calls: Calls, file: string, { program, args, env }: LightProgram, stdio: readonly number[]): number {
  const actions = Buffer.alloc(structureBytes);
  calls.beginActions(actions);
  try {
    for (const [as, fd] of stdio.entries()) calls.duplicate(actions, fd, as);
    calls.changeDirectory(actions, '/');
    const pid: [number] = [0];
    const environment = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const failure = calls.spawn(pid, file, actions, calls.attributes, [program, ...args, null], [...environment, null]);
    if (failure !== 0) throw new Error(getSystemErrorName(-failure));
    return pid[0];
  } finally {
    calls.endActions(actions);
  }
}

function childOf(calls: Calls, pid: number, output: number, errors: number): LightChild {
  const streamOf = (fd: number) => new Socket({ fd, readable: true, writable: false });
  let isOver = false;
  const look = (): ProgramEnd | undefined => {
    const status: [number] = [0];
    if (checked(calls, calls.wait(pid, status, withoutWaiting)) === 0) return undefined;
    isOver = true;
    return endOf(status[0]);
  };
  return {
    stdout: streamOf(output),
    stderr: streamOf(errors),
    kill() {
      if (!isOver) process.kill(pid, 'SIGKILL');
    },
    async ended() {
      let end = look();
      for (let pauseMs = 1; end === undefined; pauseMs = Math.min(2 * pauseMs, 50)) {
        await sleep(pauseMs);
        end = look();
      }
      return end;
    },
  };
}

const signals = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

function endOf(status: number): ProgramEnd {
  const number = status & 0x7f;
  if (number === 0) return { kind: 'exited', code: (status >> 8) & 0xff };
  return { kind: 'killed', signal: signals.get(number) ?? `signal ${number}` };
}
