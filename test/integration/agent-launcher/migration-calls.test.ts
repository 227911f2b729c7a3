import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LauncherCalls, SyncOptions } from '../../../src/agent/index.ts';
import { launcherPort } from '../../../src/agent/vmi/adapters/index.ts';
import { migrationOptionsOf } from '../../../src/agent/vmi/decide/index.ts';
import { errorCode, errorMessage } from '../../../src/base/index.ts';
import type { CommandRpc } from '../../../src/launcher-client/index.ts';
import { cmd } from '../../../src/wire/index.ts';
import { clusterConfig, vmiOf } from '../../fixtures/agent/builders.ts';
import type { ScriptedLauncher } from '../../fixtures/scripted-launcher.ts';
import { type ClientsBench, eachTestHasClientsBench, targetOf } from '../launcher-client/clients-bench.ts';

const { signal } = new AbortController();
let bench: ClientsBench;
eachTestHasClientsBench((each) => {
  bench = each;
});

async function connected(): Promise<{ launcher: ScriptedLauncher; calls: LauncherCalls }> {
  const launcher = await bench.launcherOf();
  const port = launcherPort(bench.clientsOf());
  return { launcher, calls: await port.connect(targetOf(), signal) };
}

const vmi = { ...vmiOf('Running'), unknown: { kept: [1, null] } };
const options: SyncOptions = {
  smbios: { family: 'F', manufacturer: 'M', product: 'P' },
  memBalloonStatsPeriodSeconds: 10,
  preallocatedVolumes: ['data'],
  topology: [
    { id: 0, memory: { amount: 1024, unit: 'KiB' }, pages: [], distances: [], cpus: [{ id: 0, siblings: [0, 1] }] },
  ],
  clusterFlags: { ...clusterConfig.clusterFlags, vgpuLiveMigrationEnabled: true },
  interfaceDomainAttachment: { default: 'tap' },
  interfaceMigration: { plug: 'link-refresh' },
  graceHostDeviceAliases: ['gpu-g'],
};
const migrationOptions = migrationOptionsOf(vmi, clusterConfig.migrations);

/** Bytes of everything but the VMI, whose JSON is compared beside: `options` of the request as it was on the wire. */
function sentOptions(launcher: ScriptedLauncher, rpc: CommandRpc): string {
  const call = launcher.calls.find((each) => each.rpc === rpc);
  const request = call?.request as cmd.VMIRequest;
  assert.deepEqual(JSON.parse(request.vmi?.vmiJson.toString() ?? ''), JSON.parse(JSON.stringify(vmi)), rpc);
  assert.ok(request.options, 'present, also when it is empty');
  return Buffer.from(cmd.VirtualMachineOptions.encode(request.options).finish()).toString('hex');
}

/** Field by field, so that a wrong number shows where it is. */
const bytes = {
  smbios: ['0a09', '0a014d', '120150', '2a0146'].join(''),
  balloon: '100a',
  preallocated: '1a0464617461',
  topology: ['2212', '0a10', '1208', '088008', '12034b6942', '2a04', '12020001'].join(''),
  flags: ['3a04', '1801', '3001'].join(''),
  attachment: ['420e', '0a0764656661756c74', '1203746170'].join(''),
  afterMigration: ['4a16', '0a04706c7567', '120e', '0a0c6c696e6b2d72656672657368'].join(''),
  aliases: '5a056770752d67',
};

describe('migration calls on the wire', () => {
  it('sends MigrationOptions as JSON bytes with every field, in upstream’s names and order', async () => {
    const { launcher, calls } = await connected();
    await calls.migrateVirtualMachine(vmi, migrationOptions, signal);
    const { request } = launcher.calls.find(({ rpc }) => rpc === 'migrateVirtualMachine') ?? {};
    const { options: json, vmi: sent } = request as cmd.MigrationRequest;
    assert.equal(
      json.toString(),
      '{"Bandwidth":"0","ProgressTimeout":150,"CompletionTimeoutPerGiB":150,"MaxDowntimeMs":900,"UnsafeMigration":false,' +
        '"AllowAutoConverge":false,"AllowPostCopy":false,"ParallelMigrationThreads":8,"AllowWorkloadDisruption":false,' +
        '"StallDetectorOptions":null,"Compression":null}',
    );
    assert.deepEqual(JSON.parse(sent?.vmiJson.toString() ?? '').unknown, { kept: [1, null] });
  });

  it('sends each call its own columns of the options', async () => {
    const { launcher, calls } = await connected();
    await calls.syncVirtualMachine(vmi, options, signal);
    await calls.syncMigrationTarget(vmi, options, signal);
    await calls.syncVirtualMachineCpus(vmi, options, signal);
    await calls.syncVirtualMachineMemory(vmi, options, signal);
    await calls.finalizeVirtualMachineMigration(vmi, options.interfaceMigration, signal);
    const { smbios, balloon, preallocated, topology, flags, attachment, afterMigration, aliases } = bytes;
    const all = smbios + balloon + preallocated + topology + flags + attachment + aliases;
    assert.equal(sentOptions(launcher, 'syncVirtualMachine'), all);
    assert.equal(sentOptions(launcher, 'syncMigrationTarget'), topology + flags + attachment + aliases);
    assert.equal(sentOptions(launcher, 'syncVirtualMachineCpUs'), topology + flags + aliases);
    assert.equal(sentOptions(launcher, 'syncVirtualMachineMemory'), topology + flags + aliases);
    assert.equal(sentOptions(launcher, 'finalizeVirtualMachineMigration'), afterMigration);
  });

  it('sends the other calls with options that are present and empty', async () => {
    const { launcher, calls } = await connected();
    await calls.cancelVirtualMachineMigration(vmi, signal);
    await calls.signalTargetPodCleanup(vmi, signal);
    assert.equal(sentOptions(launcher, 'cancelVirtualMachineMigration'), '');
    assert.equal(sentOptions(launcher, 'signalTargetPodCleanup'), '');
  });
});

type Send = (calls: LauncherCalls) => Promise<void>;
const sends: readonly (readonly [rpc: CommandRpc, name: string, send: Send])[] = [
  ['migrateVirtualMachine', 'Migrate', (calls) => calls.migrateVirtualMachine(vmi, migrationOptions, signal)],
  ['syncMigrationTarget', 'SyncMigrationTarget', (calls) => calls.syncMigrationTarget(vmi, options, signal)],
  ['cancelVirtualMachineMigration', 'CancelMigration', (calls) => calls.cancelVirtualMachineMigration(vmi, signal)],
  [
    'finalizeVirtualMachineMigration',
    'FinalizeVirtualMachineMigration',
    (calls) => calls.finalizeVirtualMachineMigration(vmi, {}, signal),
  ],
  ['signalTargetPodCleanup', 'SignalTargetPodCleanup', (calls) => calls.signalTargetPodCleanup(vmi, signal)],
  ['syncVirtualMachineCpUs', 'SyncVirtualMachineCPUs', (calls) => calls.syncVirtualMachineCpus(vmi, options, signal)],
  [
    'syncVirtualMachineMemory',
    'SyncVirtualMachineMemory',
    (calls) => calls.syncVirtualMachineMemory(vmi, options, signal),
  ],
  ['hotplugHostDevices', 'HotplugHostDevices', (calls) => calls.hotplugHostDevices(vmi, signal)],
];

describe('failures of migration calls', () => {
  for (const [rpc, name, send] of sends) {
    it(`tells a refusal of ${name} from a launcher that lacks the call, fails in it, and cannot answer`, async () => {
      const { launcher, calls } = await connected();
      launcher.fail(rpc, 'not "now"');
      await rejectsWith(send(calls), 'REFUSED', `server error. command ${name} failed: "not \\"now\\""`);
      const answers = [
        [12, 'REFUSED', 'rpc error: code = Unimplemented desc = x'],
        [2, 'FAILED', `unknown error encountered sending command ${name}: rpc error: code = Unknown desc = x`],
        [
          4,
          'UNRESPONSIVE',
          `unknown error encountered sending command ${name}: rpc error: code = DeadlineExceeded desc = x`,
        ],
        [1, 'DISCONNECTED', 'rpc error: code = Canceled desc = x'],
      ] as const;
      for (const [code, expected, text] of answers) {
        launcher.on(rpc, () => {
          throw Object.assign(new Error('x'), { code });
        });
        await rejectsWith(send(calls), expected, text);
      }
    });
  }
});

async function rejectsWith(call: Promise<void>, code: string, text: string): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.deepEqual([errorCode(error), errorMessage(error)], [code, text]);
    return true;
  });
}
