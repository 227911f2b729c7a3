import { execFile } from 'node:child_process';
import { access, open } from 'node:fs/promises';
import { errorMessage, Turn } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

const control = '/dev/loop-control';
const env = { PATH: '/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' };
const deadlineMs = 20_000;

/**
 * The kernel's block devices on top of files, by losetup(8). The kernel knows which file has which device, so nothing has to be remembered; after
 * a reboot none has one. Rejects with NodeError UNSUPPORTED where there are none, else with VOLUME_DAMAGED.
 */
export class LoopDevices {
  /** One after the other: two pods may ask for the same file. */
  readonly #turn = new Turn();

  /** Why this machine has none, in words; undefined: it has. */
  async problem(): Promise<string | undefined> {
    return access(control).then(
      () => undefined,
      () => `this machine has no loop devices (${control} is missing; modprobe loop), which block volumes take`,
    );
  }

  /** The file's device, the same for all pods. */
  attach(file: string): Promise<string> {
    return this.#turn.take(async () => {
      const problem = await this.problem();
      if (problem) throw new NodeError('UNSUPPORTED', `${problem}: use volumeMode Filesystem`);
      const device = (await losetup(['--find', '--show', '--nooverlap', file])).trim();
      if (/^\/dev\/loop\d+$/.test(device)) return device;
      throw new NodeError(
        'VOLUME_DAMAGED',
        `losetup names ${JSON.stringify(device)} for ${file}, which is no loop device`,
      );
    });
  }

  /** Of a file that no pod has: who has it open nevertheless keeps it until it is closed. */
  detach(file: string): Promise<void> {
    return this.#turn.take(async () => {
      for (const device of await devicesOf(file)) await losetup(['--detach', device]);
    });
  }

  /** After the file has grown. */
  refresh(file: string): Promise<void> {
    return this.#turn.take(async () => {
      for (const device of await devicesOf(file)) await losetup(['--set-capacity', device]);
    });
  }

  /** What was written to the device is in the file afterwards. */
  flush(file: string): Promise<void> {
    return this.#turn.take(async () => {
      for (const device of await devicesOf(file)) {
        const handle = await open(device, 'r');
        await handle.sync().finally(() => handle.close());
      }
    });
  }
}

async function devicesOf(file: string): Promise<string[]> {
  const listed = await losetup(['--list', '--noheadings', '--output', 'NAME', '--associated', file]).catch(() => '');
  return listed.split('\n').flatMap((line) => (/^\/dev\/loop\d+$/.test(line.trim()) ? [line.trim()] : []));
}

function losetup(args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile('losetup', args, { env, timeout: deadlineMs, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      if (!error) resolve(stdout);
      else
        reject(new NodeError('VOLUME_DAMAGED', `losetup: ${stderr.trim() || errorMessage(error)}`, { cause: error }));
    });
  });
}
