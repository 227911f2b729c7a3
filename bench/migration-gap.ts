import { accessSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { VirtualMachineInstance } from '../src/api/index.ts';
import { TestAuthority } from '../test/fixtures/certificates.ts';
import { type CmdCaller, vmiRequest } from '../test/fixtures/cmd-caller.ts';
import { eventually } from '../test/fixtures/eventually.ts';
import { GuestShell } from '../test/fixtures/guest-shell.ts';
import { hasStatus, LauncherBench } from '../test/fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../test/fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../test/fixtures/launcher-vmi.ts';
import { ProxyNode } from '../test/fixtures/migration-proxy-node.ts';
import type { NotifyAgent, SeenEvent } from '../test/fixtures/notify-agent.ts';
import type { Figure } from './figures.ts';

export interface MigrationGapOptions {
  /** Moves each way of the streams; the first of each warms up and does not count. */
  readonly runs: number;
  readonly say: (text: string) => void;
}

/** Leads the source's launcher to the target's for one move; ends what it has opened. */
interface Way {
  readonly name: string;
  open(from: LauncherSandbox, to: LauncherSandbox): Promise<() => Promise<void>>;
}

interface Place {
  readonly pod: LauncherSandbox;
  readonly cmd: CmdCaller;
  readonly agent: NotifyAgent;
  readonly shell: GuestShell;
}

interface Sample {
  readonly gapMs: number;
  readonly tookMs: number;
  readonly loopMs: number;
}

const patienceMs = 120_000;
const roles = [0, 49_152, 49_153] as const;
const socketName = (role: number) => `migrationproxy/${launcherVmiUid}${role ? `-${role}` : ''}-source.sock`;

/** As an agent sends them to move as fast as can be. */
const options = {
  ...{ Bandwidth: '0', ProgressTimeout: 150, CompletionTimeoutPerGiB: 150, MaxDowntimeMs: 250 },
  ...{ UnsafeMigration: false, AllowAutoConverge: false, AllowPostCopy: false, AllowWorkloadDisruption: false },
  ...{ ParallelMigrationThreads: null, StallDetectorOptions: null, Compression: null },
};

const guest: VirtualMachineInstance = (() => {
  const vmi = guestVmi({ devices: {} as never });
  const { domain } = vmi.spec;
  return { ...vmi, spec: { ...vmi.spec, domain: { ...domain, resources: { requests: { memory: '256Mi' } } } } };
})();

/** Without proxies: the source's sockets are the target's. */
const direct: Way = {
  name: 'without proxies',
  async open(from, to) {
    const links = roles.map((role) => path.join(from.shareDir, socketName(role)));
    mkdirSync(path.dirname(links[0] ?? ''), { recursive: true });
    for (const [index, role] of roles.entries()) {
      const there = role ? path.join(to.shareDir, socketName(role)) : path.join(to.libvirtDir, 'virtqemud-sock');
      symlinkSync(there, links[index] ?? '');
    }
    return async () => {
      for (const link of links) rmSync(link, { force: true });
    };
  },
};

function proxied(from: ProxyNode, to: ProxyNode): Way {
  const vmi = { key: 'default/small', uid: launcherVmiUid } as const;
  let count = 0;
  return {
    name: 'HAProxy with TLS',
    async open(source, target) {
      const { signal } = new AbortController();
      const common = { ...vmi, migrationUid: `move-${++count}` };
      await to.proxies.openTarget({ ...common, launcherPid: launcherPid(target), roles: [...roles] }, signal);
      const ports = to.proxies.targetPorts(launcherVmiUid) ?? {};
      const way = { ...common, launcherPid: launcherPid(source), address: '127.0.0.1', ports };
      await from.proxies.openSource(way, signal);
      return async () => {
        await from.proxies.closeSource(launcherVmiUid);
        await to.proxies.closeTarget(launcherVmiUid);
      };
    },
  };
}

/** The last one: the sandbox's first process has the same words in its command line. */
const launcherPid = (pod: LauncherSandbox) => Math.max(...pod.pids('virt-launcher.mjs'));

/** One guest that beats on its console moves from launcher to launcher; each way of its streams in turn. */
export async function migrationGap({ runs, say }: MigrationGapOptions): Promise<Figure[]> {
  const ends: (() => unknown)[] = [];
  const t = { after: (work: () => unknown) => void ends.unshift(work) };
  const authority = await TestAuthority.make();
  t.after(() => authority.remove());
  try {
    const bench = await LauncherBench.create();
    t.after(() => bench.dispose());
    const ways = [direct, proxied(await ProxyNode.make(t, authority), await ProxyNode.make(t, authority))];
    const samples = new Map(ways.map(({ name }) => [name, [] as Sample[]]));
    let here = await firstPlace(bench);
    for (let run = 0; run <= runs; run++) {
      for (const way of ways) {
        const { place, ...sample } = await move(bench, here, way, `${run}-${way.name}`);
        here = place;
        if (run > 0) samples.get(way.name)?.push(sample);
        const which = run === 0 ? 'warm-up' : `run ${run}`;
        say(`${which}, ${way.name}: gap ${sample.gapMs.toFixed(0)} ms, all ${sample.tookMs.toFixed(0)} ms`);
      }
    }
    here.shell.close();
    return ways.flatMap(({ name }) => figuresOf(name, samples.get(name) ?? []));
  } finally {
    for (const end of ends) await end();
  }
}

async function podOf(bench: LauncherBench): Promise<Omit<Place, 'shell'>> {
  const pod = await bench.startPod({ kernelBootDir: guestDir });
  return { pod, agent: await bench.startAgent(pod), cmd: await bench.callerOf(pod) };
}

const serialOf = (pod: LauncherSandbox) => path.join(pod.privateDir, launcherVmiUid, 'virt-serial0');

async function firstPlace(bench: LauncherBench): Promise<Place> {
  const { pod, cmd, agent } = await podOf(bench);
  expectOk(await cmd.call(cmd.client.syncVirtualMachine, vmiRequest(guest), patienceMs), pod);
  const shell = new GuestShell(serialOf(pod));
  await shell.login();
  await shell.run('head -c 100m /dev/urandom > /tmp/ballast; (while :; do echo beat; usleep 5000; done) & true');
  return { pod, cmd, agent, shell };
}

async function move(bench: LauncherBench, here: Place, way: Way, uid: string): Promise<Sample & { place: Place }> {
  const vmi: VirtualMachineInstance = { ...guest, status: { phase: 'Running', migrationState: { migrationUid: uid } } };
  const there = await podOf(bench);
  const { pod, cmd, agent } = there;
  expectOk(await cmd.call(cmd.client.syncMigrationTarget, vmiRequest(vmi), patienceMs), pod);
  const close = await way.open(here.pod, pod);
  const loop = monitorEventLoopDelay({ resolution: 1 });
  loop.enable();
  const beganMs = performance.now();
  const request = { ...vmiRequest(vmi), options: Buffer.from(JSON.stringify(options)) };
  expectOk(await here.cmd.call(here.cmd.client.migrateVirtualMachine, request, patienceMs), here.pod);
  // QEMU makes it when it begins to wait for the guest.
  await eventually(() => accessSync(serialOf(pod)), patienceMs);
  const shell = new GuestShell(serialOf(pod));
  const end = await here.agent.waitFor((seen) => Boolean(migrationOf(seen, uid)?.EndTimestamp), patienceMs);
  const tookMs = performance.now() - beganMs;
  const failure = migrationOf(end, uid)?.FailureReason;
  if (failure) throw new Error(`${uid}: ${failure}`);
  await agent.waitFor(hasStatus('Running'), patienceMs);
  await eventually(() => void gapOf(here.shell, shell), patienceMs);
  const gapMs = gapOf(here.shell, shell);
  loop.disable();
  await here.agent.waitFor(hasStatus('Shutoff', 'Migrated'), patienceMs);
  here.shell.close();
  expectOk(await here.cmd.call(here.cmd.client.deleteVirtualMachine, vmiRequest(guest)), here.pod);
  await here.pod.exited;
  await close();
  return { gapMs, tookMs, loopMs: loop.percentile(99) / 1e6, place: { ...there, shell } };
}

/** Throws while it is not over. */
function gapOf({ heardMs: here }: GuestShell, { heardMs: there }: GuestShell): number {
  if (!here || !there) throw new Error('the guest is not heard');
  return there.first - here.last;
}

function migrationOf({ domain }: SeenEvent, uid: string) {
  const migration = domain.Spec.Metadata.KubeVirt.Migration;
  return migration?.UID === uid ? migration : undefined;
}

function expectOk({ success, message }: { success: boolean; message: string }, pod: LauncherSandbox): void {
  if (!success) throw new Error(`${message}\n${pod.log()}`);
}

function figuresOf(name: string, samples: readonly Sample[]): Figure[] {
  return [
    {
      name: `${name}: last beat heard here to first beat there`,
      unit: 'ms',
      samples: samples.map((each) => each.gapMs),
    },
    { name: `${name}: the whole move`, unit: 'ms', samples: samples.map((each) => each.tookMs) },
    {
      name: `${name}: delay of the event loop that keeps the proxies, p99`,
      unit: 'ms',
      samples: samples.map((each) => each.loopMs),
    },
  ];
}
