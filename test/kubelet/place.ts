import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { eventually } from '../fixtures/eventually.ts';

/** Of each node: its name, its address, and which its pods have. */
export interface NodeNames {
  readonly name: string;
  readonly address: string;
  readonly podSubnet: string;
}

export const nodeNames: readonly [NodeNames, NodeNames] = [
  { name: 'node1', address: '192.168.126.1', podSubnet: '10.85.0.0/24' },
  { name: 'node2', address: '192.168.126.2', podSubnet: '10.85.1.0/24' },
];
const serviceSubnet = '10.96.0.0/16';

export function childrenOf(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const children = (task: string) => readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1').split(' ');
  return tasks.flatMap(children).filter(Boolean).map(Number);
}

/** A machine that a node's programs run on: the one this test was started on (scripts/kubelet-machine.sh), or one within it. */
export class Place {
  /** For files of programs; the same everywhere. */
  readonly dir: string;
  /** Branch of the cgroups. */
  readonly cgroupRoot: string;
  readonly #pid: number | undefined;
  readonly #child: ChildProcess | undefined;

  private constructor(dir: string, cgroupRoot: string, pid?: number, child?: ChildProcess) {
    this.dir = dir;
    this.cgroupRoot = cgroupRoot;
    this.#pid = pid;
    this.#child = child;
  }

  static here(): Place {
    const { KUBELET_MACHINE: dir, CGROUP_ROOT: cgroupRoot } = process.env;
    assert.ok(dir && cgroupRoot, 'runs on a machine of its own: node scripts/test.mjs kubelet');
    return new Place(dir, cgroupRoot);
  }

  /** A machine within this one, joined to it by a link: nodes and pods of both reach each other by their addresses. */
  static async within(here: Place, node: NodeNames): Promise<Place> {
    const dir = path.join(here.dir, node.name);
    mkdirSync(dir);
    const started = `${dir}.started`;
    // Ends with its input.
    const command = ['-c', `echo "$CGROUP_ROOT" >${started}; read _`];
    const env = { ...process.env, NODE_ADDRESS: node.address };
    const child = spawn('bash', ['scripts/kubelet-machine.sh', dir, 'sh', ...command], { stdio: ['pipe', 2, 2], env });
    let cgroupRoot = '';
    await eventually(() => {
      assert.equal(child.exitCode, null, `no machine for ${node.name}`);
      cgroupRoot = readFileSync(started, 'utf8').trim();
      assert.notEqual(cgroupRoot, '');
    });
    const [pid] = childrenOf(child.pid ?? 0).flatMap(childrenOf);
    assert.ok(pid);
    const place = new Place(dir, cgroupRoot, pid, child);
    place.#join(node);
    return place;
  }

  get isHere(): boolean {
    return this.#pid === undefined;
  }

  /** A file of that machine, as this process reaches it. */
  file(name: string): string {
    return this.isHere ? name : `/proc/${this.#pid}/root${name}`;
  }

  /** What runs a command there; `command` is a path, or on PATH. */
  commandLine(command: string, args: readonly string[]): string[] {
    if (this.isHere) return [command, ...args];
    return ['nsenter', '--target', `${this.#pid}`, '--mount', '--net', '--pid', '--', command, ...args];
  }

  run(command: string, ...args: readonly string[]): string {
    const [first = command, ...rest] = this.commandLine(command, args);
    return execFileSync(first, rest, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Whether a process belongs to a pod of this machine's kubelet. */
  hasPodProcess(pid: number): boolean {
    try {
      return readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes(`:${this.cgroupRoot}/kubepods/`);
    } catch {
      return false;
    }
  }

  /** With all that runs there; the machine this test was started on stays. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.stdin?.end();
    await ended;
  }

  #join(node: NodeNames): void {
    const [first] = nodeNames;
    const here = (...args: string[]) => execFileSync('ip', args);
    here('link', 'add', node.name, 'type', 'veth', 'peer', 'name', 'node1', 'netns', `${this.#pid}`);
    here('link', 'set', node.name, 'up');
    here('route', 'add', node.address, 'dev', node.name, 'src', first.address);
    here('route', 'add', node.podSubnet, 'via', node.address, 'dev', node.name, 'src', first.address);
    this.run('ip', 'link', 'set', 'node1', 'up');
    this.run('ip', 'route', 'add', first.address, 'dev', 'node1', 'src', node.address);
    for (const subnet of [first.podSubnet, serviceSubnet]) {
      this.run('ip', 'route', 'add', subnet, 'via', first.address, 'dev', 'node1', 'src', node.address);
    }
  }
}
