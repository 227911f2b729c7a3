import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resources } from '../src/api/index.ts';
import { KubeClient, loadKubeAccess } from '../src/kube/index.ts';
import { ImageStore, installDemoImage, type NodePaths, nodePaths } from '../src/standalone/index.ts';
import { ended, waitFor } from './waiting.ts';

const cli = 'dist/bin/virt-node.js';

/** A standalone node on a state directory of its own, started as a user would: by its command. */
export interface NodeUnderTest {
  readonly paths: NodePaths;
  readonly pid: number;
  readonly client: KubeClient;
  /** From the command to the moment at which a VM can be applied and will be scheduled. */
  readonly readyMs: number;
  stop(): Promise<void>;
}

async function connect(kubeconfig: string): Promise<KubeClient | undefined> {
  if (!existsSync(kubeconfig)) return undefined;
  const access = await loadKubeAccess({ kubeconfig });
  return new KubeClient(
    { userAgent: 'bench', rateLimit: { qps: 1000, burst: 1000 }, retry: { attempts: 1 } },
    { access },
  );
}

async function isSchedulable(client: KubeClient): Promise<true | undefined> {
  const nodes = await client.list(resources.nodes).catch(() => undefined);
  return nodes?.items.some(({ metadata }) => metadata.labels?.['kubevirt.io/schedulable'] === 'true') || undefined;
}

export async function startNode(): Promise<NodeUnderTest> {
  const stateDir = mkdtempSync(path.join(tmpdir(), 'virt-node-bench-'));
  const paths = nodePaths(stateDir);
  // `virt-node start` brings no images of its own.
  await installDemoImage(new ImageStore({ dir: paths.imagesDir }), '.cache/guest');
  const startMs = performance.now();
  const child = spawn(process.execPath, [cli, 'start', '--state-dir', stateDir, '--node-name', 'bench'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (child.pid === undefined) throw new Error(`${cli} cannot be started: npm run build`);
  const client = await waitFor('kubeconfig', 60_000, () => connect(paths.kubeconfig));
  await waitFor('schedulable node', 60_000, () => isSchedulable(client));
  const readyMs = performance.now() - startMs;
  const stop = async () => {
    client.close();
    const stopping = spawn(process.execPath, [cli, 'stop', '--state-dir', stateDir], { stdio: 'ignore' });
    await ended(stopping);
    child.kill('SIGTERM');
    await ended(child);
    rmSync(stateDir, { recursive: true, force: true });
  };
  return { paths, pid: child.pid, client, readyMs, stop };
}

export interface RunningProgram {
  readonly pid: string;
  readonly residentMb: number;
}

/** The processes of the node and of its one VM, by the program's name. */
export function runningPrograms(node: NodeUnderTest): ReadonlyMap<string, RunningProgram> {
  const found = new Map<string, RunningProgram>();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const name = programName(pid, node);
    const kilobytes = name && /^VmRSS:\s+(\d+) kB$/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1];
    const residentMb = Number(kilobytes) / 1024;
    // Helpers of a program (a shim, a fork) are smaller than the program itself.
    if (name && kilobytes && residentMb > (found.get(name)?.residentMb ?? 0)) found.set(name, { pid, residentMb });
  }
  return found;
}

function programName(pid: string, node: NodeUnderTest): string | undefined {
  if (Number(pid) === node.pid) return 'virt-node start';
  const argv = readOrEmpty(`/proc/${pid}/cmdline`).split('\0');
  const program = argv
    .map((arg) => path.basename(arg))
    .find((arg) => /^(virt-\w+\.js|libvirtd|virtqemud|qemu-system-\w+)$/.test(arg));
  if (!program || !belongsTo(pid, node)) return undefined;
  return program === 'virt-node.js' ? `virt-node ${argv[2] ?? ''}` : program.replace(/\.js$/, '');
}

/** Descendants of the node's command, or processes that name its state directory or a pod's sandbox below it. */
function belongsTo(pid: string, { pid: root, paths: { stateDir } }: NodeUnderTest): boolean {
  if (readOrEmpty(`/proc/${pid}/cmdline`).includes(stateDir)) return true;
  if (readOrEmpty(`/proc/${pid}/mountinfo`).includes(stateDir)) return true;
  const parent = /^\d+ \(.*\) \S (\d+)/s.exec(readOrEmpty(`/proc/${pid}/stat`))?.[1];
  return parent !== undefined && Number(parent) === root;
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
