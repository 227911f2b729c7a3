import { execFile } from 'node:child_process';
import { mkdir, readFile, realpath } from 'node:fs/promises';
import { promisify } from 'node:util';
import { errorMessage, required } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

const run = promisify(execFile);

interface MountPoint {
  readonly point: string;
  /** What of its file system is mounted. */
  readonly root: string;
  readonly isShared: boolean;
}

/**
 * Lets what is mounted below the directory from now on come into pods that were started before, as a kubelet has it. Where the machine
 * shares its mounts anyway, as systemd does, nothing is done; else the directory is mounted on itself. Rejects with NodeError SANDBOX.
 */
export async function shareMounts(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const real = await realpath(dir);
  if ((await mountOf(real)).isShared) return;
  await run('mount', ['-n', '--bind', '--make-shared', real, real]).catch((cause: unknown) => {
    throw new NodeError('SANDBOX', `${dir} cannot be mounted for pods: ${errorMessage(cause)}`, { cause });
  });
}

/** Takes back what `shareMounts` did, when no pod runs. */
export async function unshareMounts(dir: string): Promise<void> {
  const real = await realpath(dir).catch(() => undefined);
  if (real === undefined) return;
  const { point, root } = await mountOf(real);
  // A disk that its owner has mounted there has another root.
  if (point === real && real.endsWith(root)) await run('umount', ['-n', '-l', real]);
}

/** The mount that the directory is in. */
async function mountOf(dir: string): Promise<MountPoint> {
  const points = await mountPoints();
  const holding = points.filter(({ point }) => point === dir || dir.startsWith(point === '/' ? '/' : `${point}/`));
  // Of two on one point the later one is seen.
  return holding.reduce((best, each) => (each.point.length >= best.point.length ? each : best), {
    point: '/',
    root: '/',
    isShared: false,
  });
}

/** Mount points of this process's mount namespace below `dir`. */
export async function mountsBelow(dir: string): Promise<string[]> {
  const points = (await mountPoints()).map(({ point }) => point);
  return points.filter((point) => point === dir || point.startsWith(`${dir}/`));
}

async function mountPoints(): Promise<MountPoint[]> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return table
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [known = ''] = line.split(' - ');
      const [, , , root, point, , ...tags] = known.split(' ');
      const isShared = tags.some((tag) => tag.startsWith('shared:'));
      return { point: nameOf(point, 'mount point'), root: nameOf(root, 'root of a mount'), isShared };
    });
}

function nameOf(field: string | undefined, what: string): string {
  return required(field, what).replace(/\\([0-7]{3})/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 8)),
  );
}
