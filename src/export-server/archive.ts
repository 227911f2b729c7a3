import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { ExportError, type Handler } from './answer.ts';
import { checkVolume, requireGet } from './disk.ts';

const tar = '/usr/bin/tar';
/** Of its complaints. */
const maxWords = 4 * 1024;

/** All of a volume as one file. Links are in it as links: tar follows none. A sparse file takes as much as it has. */
export function archiveHandler(root: string): Handler {
  return async (exchange) => {
    requireGet(exchange);
    await checkVolume(root);
    const child = spawn(tar, ['--create', '--sparse', '--exclude=./lost+found', '--file=-', '.'], {
      cwd: root,
      env: { PATH: '/usr/bin:/bin' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = endOf(child);
    // A client that goes away has it killed, and nobody asks any more.
    ended.catch(() => undefined);
    try {
      await started(child);
      exchange.response.writeHead(200, { 'content-type': 'application/gzip' });
      const { stdout } = child;
      const archive = async function* (): AsyncGenerator<Buffer> {
        for await (const chunk of stdout) yield chunk as Buffer;
        // Its end has not been sent yet: a client never takes half an archive for a whole one.
        await ended;
      };
      await pipeline(archive, createGzip({ level: 1 }), exchange.response, { signal: exchange.signal });
    } finally {
      child.kill('SIGKILL');
    }
  };
}

async function started(child: ChildProcess): Promise<void> {
  try {
    await once(child, 'spawn');
  } catch (cause) {
    throw new ExportError('UNAVAILABLE', `${tar} cannot be run: this image needs it for archives`, { cause });
  }
}

async function endOf(child: ChildProcess): Promise<void> {
  let words = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    words = (words + text).slice(0, maxWords);
  });
  const [code, signal] = await once(child, 'close');
  if (code !== 0) throw new ExportError('CHANGED', `tar ended with ${code ?? signal}: ${words.trim()}`);
}
