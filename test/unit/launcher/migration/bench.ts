import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import type { ConverterOptions } from '../../../../src/launcher/domain/index.ts';
import { DomainLock } from '../../../../src/launcher/lifecycle/domain-lock.ts';
import { hasRun, MetadataCache } from '../../../../src/launcher/lifecycle/index.ts';
import { LiveMigration } from '../../../../src/launcher/migration/index.ts';
import type { LauncherEvent } from '../../../../src/launcher/ports.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

export const domainName = 'default_small';

export const disk = (name: string, target: string, more = '') =>
  `<disk type='file' device='disk'><source file='/disks/${name}'/><target dev='${target}'/>${more}<alias name='ua-${name}'/></disk>`;

/** As an agent sends them. */
export const usual = {
  Bandwidth: '0',
  ProgressTimeout: 150,
  CompletionTimeoutPerGiB: 150,
  MaxDowntimeMs: 250,
  UnsafeMigration: false,
  AllowAutoConverge: false,
  AllowPostCopy: false,
  ParallelMigrationThreads: null,
  AllowWorkloadDisruption: false,
  StallDetectorOptions: null,
  Compression: null,
};

export const json = (options: object) => Buffer.from(JSON.stringify(options));

export function migratingVmi(migrationUid: string, status: object = {}): VirtualMachineInstance {
  return { ...launcherVmi(), status: { phase: 'Running', migrationState: { migrationUid }, ...status } };
}

export const job = (params: Record<string, bigint | number> = {}) => ({
  type: 2,
  params: new Map<string, bigint | number>([['operation', 5], ...Object.entries(params)]),
});
export const noJob = { type: 0, params: new Map() };

/** A libvirt call that a test ends. */
export class HeldCall {
  end: () => void = () => undefined;
  fail: (error: Error) => void = () => undefined;
  readonly #ended = new Promise<void>((resolve, reject) => {
    this.end = resolve;
    this.fail = reject;
  });

  readonly run = () => this.#ended;
}

export const brokenPipe = new LibvirtError(
  'OPERATION_FAILED',
  "operation failed: job 'migration out' failed: Unable to write to socket: Broken pipe",
);

export interface MigrationBench {
  readonly hypervisor: MemoryHypervisor;
  readonly migration: LiveMigration;
  readonly metadata: MetadataCache;
  readonly lock: DomainLock;
  readonly clock: FakeClock;
  readonly events: LauncherEvent[];
  /** The launcher's directory. */
  readonly dir: string;
  /** The launcher's process is another one from now on, on the same files. */
  restarted(): Promise<MigrationBench>;
  order(uid: string, options?: object, status?: object): Promise<void>;
}

interface Given {
  readonly devices?: string;
  readonly prepare?: (vmi: VirtualMachineInstance, options: ConverterOptions) => Promise<string>;
  /** Absent: the guest runs here. */
  readonly role?: 'target';
}

export async function migrationBench(t: TestContext, given: Given = {}): Promise<MigrationBench> {
  const dir = mkdtempSync(path.join(tmpdir(), 'migration-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const hypervisor = new MemoryHypervisor();
  const bench = make(dir, hypervisor, given);
  if (given.role === 'target') return bench;
  const xml = `<domain><name>${domainName}</name><devices>${given.devices ?? ''}</devices></domain>`;
  await hypervisor.start(await hypervisor.define(xml), { paused: false });
  bench.metadata.record(hasRun);
  hypervisor.calls.length = 0;
  return bench;
}

function make(dir: string, hypervisor: MemoryHypervisor, given: Given): MigrationBench {
  const clock = new FakeClock();
  const metadata = new MetadataCache({ file: path.join(dir, 'state.json') }, { log: silentLogger });
  const lock = new DomainLock({ maxWaitMs: 15_000 }, { clock, refuse: (name) => migration.refuse(name) });
  const events: LauncherEvent[] = [];
  const migration = new LiveMigration(
    { domainName, proxyDir: path.join(dir, 'migrationproxy'), isSession: false, owner: undefined },
    {
      hypervisor,
      lock,
      metadata,
      notifier: { sendEvent: (event) => events.push(event) },
      prepare: given.prepare ?? (async () => `<domain><name>${domainName}</name></domain>`),
      findMedia: async () => new Map(),
      syncTime: () => void hypervisor.calls.push('syncTime'),
      log: silentLogger,
      clock,
    },
  );
  hypervisor.onEvent((event) => migration.handle(event));
  return {
    hypervisor,
    migration,
    metadata,
    lock,
    clock,
    events,
    dir,
    async restarted() {
      migration.stop();
      const next = make(dir, hypervisor, given);
      next.migration.start();
      await next.clock.pass(0);
      return next;
    },
    order: (uid, options = usual, status) => migration.migrate(migratingVmi(uid, status), json(options)),
  };
}
