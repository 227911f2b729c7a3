import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resources, type VirtualMachineInstance } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { ensureKubevirtCertificates } from '../src/certificates/index.ts';
import { LauncherFleet } from '../test/fixtures/scripted-launcher-fleet.ts';
import { type AgentProgram, AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, type ApiUnderLoad, startApi } from './api-under-load.ts';
import { type Figure, percentile, type Unit } from './figures.ts';
import { createVmis, newVmi, podUidOf, schedule } from './vmis.ts';
import { waitFor } from './waiting.ts';

export interface ScrapeBenchOptions {
  readonly program: AgentProgram;
  readonly api: ApiKind | undefined;
  readonly vms: number;
  /** Of them, those whose launcher takes connections and says nothing. */
  readonly hung: number;
  readonly scrapes: number;
  readonly logFile: string | undefined;
  readonly say: (text: string) => void;
}

const nodeName = 'bench';
const nameOf = (index: number) => `vm-${index}`;
/** All VMs have been asked at least twice by then, and the calls to those that hang were given up. */
const settleMs = 30_000;

/** `/metrics` of the agent's own program, with TLS, while a tenth of its launchers hangs. */
export async function scrapeBench(options: ScrapeBenchOptions): Promise<readonly Figure[]> {
  // Short: socket paths end at 107 bytes.
  const dir = mkdtempSync(path.join(tmpdir(), 's-'));
  const undo: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true })];
  try {
    const api = await startApi(options.api, dir, nodeName);
    undo.push(() => api.stop());
    const { server } = await ensureKubevirtCertificates(path.join(dir, 'ca'));
    const place = {
      dir: path.join(dir, 'node'),
      nodeName,
      kubeconfig: api.handlerKubeconfig,
      admin: api.admin,
      server,
      // Others' agents have the usual ones: a scrape of theirs would be counted.
      firstPort: 28_785,
    };
    const agent = new AgentUnderTest(options.program, place);
    undo.push(() => agent.dispose());
    if (options.logFile) undo.push(() => agent.saveLog(options.logFile ?? ''));
    const fleet = await LauncherFleet.start(agent.podsDir);
    undo.push(() => fleet.stop());
    await agent.start();
    await runVmis(api, fleet, options.vms);
    options.say(`${options.vms} VMs run`);
    return await measure(options, agent, fleet);
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

async function measure(options: ScrapeBenchOptions, agent: AgentUnderTest, fleet: LauncherFleet): Promise<Figure[]> {
  const { hung, scrapes, say } = options;
  const before = agent.residentMb();
  await fleet.hang(Array.from({ length: hung }, (_, index) => podUidOf(nameOf(index))));
  const first = await scrape(agent.metricsPort);
  const startMs = performance.now();
  const cpuMs = agent.cpuMs();
  await sleep(settleMs);
  const idleCpu = ((agent.cpuMs() - cpuMs) / (performance.now() - startMs)) * 100;
  const [plain, zipped, probes]: [number[], number[], number[]] = [[], [], []];
  const lateBefore = await lateness(agent.metricsPort);
  for (let at = 0; at < scrapes; at++) {
    const probing = timed(agent.metricsPort, '/livez', false);
    plain.push((await scrape(agent.metricsPort)).tookMs);
    probes.push((await probing).tookMs);
    zipped.push((await timed(agent.metricsPort, '/metrics', true)).tookMs);
    await sleep(100);
  }
  const lateAfter = await lateness(agent.metricsPort);
  const plainCpu = await cpuPerScrape(agent, scrapes, { isZipped: false, idleCpu });
  const zippedCpu = await cpuPerScrape(agent, scrapes, { isZipped: true, idleCpu });
  const last = await scrape(agent.metricsPort);
  const cpus = [...last.text.matchAll(/^kubevirt_vmi_cpu_usage_seconds_total\{/gm)].length;
  say(`figures of ${cpus} VMs, ${hung} launchers hang`);
  if (cpus === 0) throw new Error('no VM has figures: was another agent scraped?');
  const figure = (name: string, unit: Unit, ...samples: number[]): Figure => ({ name, unit, samples });
  const late = (lateAfter.lateMs - lateBefore.lateMs) / Math.max(1, lateAfter.looks - lateBefore.looks);
  return [
    figure('VMs with figures', '1', cpus),
    figure('series in a scrape', '1', last.text.split('\n').filter((line) => line !== '' && line[0] !== '#').length),
    figure('text of a scrape', 'MB', last.text.length / 1e6),
    figure('first scrape', 'ms', first.tookMs),
    figure('scrape, p50', 'ms', percentile(plain, 50)),
    figure('scrape, p95', 'ms', percentile(plain, 95)),
    figure('scrape with gzip, p50', 'ms', percentile(zipped, 50)),
    figure('scrape with gzip, p95', 'ms', percentile(zipped, 95)),
    figure('CPU of a scrape', 'ms', plainCpu),
    figure('CPU of a scrape with gzip', 'ms', zippedCpu),
    figure('/livez beside a scrape, p95', 'ms', percentile(probes, 95)),
    figure('event loop late while scraped, average', 'ms', late),
    figure('CPU of sampling', '%', idleCpu),
    figure('RSS before', 'MB', before),
    figure('RSS after', 'MB', agent.residentMb()),
  ];
}

/** With its TLS handshake, without what the agent does meanwhile anyway. Counts the same on a machine that others use. */
async function cpuPerScrape(
  agent: AgentUnderTest,
  count: number,
  { isZipped, idleCpu }: { readonly isZipped: boolean; readonly idleCpu: number },
): Promise<number> {
  const [startMs, cpuMs] = [performance.now(), agent.cpuMs()];
  for (let at = 0; at < count; at++) await timed(agent.metricsPort, '/metrics', isZipped);
  const otherMs = ((performance.now() - startMs) * idleCpu) / 100;
  return Math.max(0, agent.cpuMs() - cpuMs - otherMs) / count;
}

interface Timed {
  readonly tookMs: number;
  readonly text: string;
}

const scrape = (port: number) => timed(port, '/metrics', false);

/** A connection of its own, as most scrapers have one: with its handshake. */
function timed(port: number, route: string, isZipped: boolean): Promise<Timed> {
  const startMs = performance.now();
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: route, agent: false, rejectUnauthorized: false } as const;
    const headers = isZipped ? { 'accept-encoding': 'gzip' } : {};
    const call = request({ ...options, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const tookMs = performance.now() - startMs;
        if (response.statusCode !== 200) reject(new Error(`${route}: ${response.statusCode}`));
        else resolve({ tookMs, text: isZipped ? '' : Buffer.concat(chunks).toString() });
      });
    });
    call.once('error', reject);
    call.end();
  });
}

export async function lateness(port: number): Promise<{ readonly lateMs: number; readonly looks: number }> {
  const { text } = await scrape(port);
  const read = (name: string) =>
    Number(new RegExp(`^kubevirt_virt_handler_event_loop_${name} (.+)$`, 'm').exec(text)?.[1]);
  return { lateMs: read('late_seconds_total') * 1000, looks: read('looks_total') };
}

async function runVmis({ admin }: ApiUnderLoad, fleet: LauncherFleet, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => nameOf(index));
  await fleet.add(names.map((name) => ({ podUid: podUidOf(name) })));
  const vmis = names.map((name) => newVmi('default', name));
  await createVmis(admin, vmis);
  for (const name of names) await schedule(admin, 'default', name, nodeName);
  // Not what is measured: on a machine that others use it takes minutes.
  await waitFor(`${count} running VMIs`, 600_000, async () => {
    const { items } = await admin.list<VirtualMachineInstance>(resources.virtualMachineInstances);
    return items.filter(({ status }) => status?.phase === 'Running').length === count ? true : undefined;
  });
}
