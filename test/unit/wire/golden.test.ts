import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cmd, cmdInfo, notify, notifyInfo } from '../../../src/wire/index.ts';

/** Literal bytes: what a launcher or agent of KubeVirt v1.9.0 puts on the wire. Both ways. */
interface Codec<T> {
  encode(message: T): { finish(): Uint8Array };
  decode(input: Uint8Array): T;
  fromPartial(partial: never): T;
}

function golden<T>(name: string, codec: Codec<T>, partial: object, hex: string): void {
  it(name, () => {
    const message = codec.fromPartial(partial as never);
    const wanted = hex.replaceAll(' ', '');
    assert.equal(Buffer.from(codec.encode(message).finish()).toString('hex'), wanted);
    assert.deepEqual(codec.decode(Buffer.from(wanted, 'hex')), message);
  });
}

const text = (value: string) => Buffer.from(value);

describe('golden bytes of kubevirt.cmd.info and kubevirt.notify.info', () => {
  golden('CmdInfoRequest is empty', cmdInfo.CmdInfoRequest, {}, '');
  golden(
    'CmdInfoResponse packs its versions',
    cmdInfo.CmdInfoResponse,
    { supportedCmdVersions: [1, 300] },
    '0a03 01 ac02',
  );
  golden('NotifyInfoRequest is empty', notifyInfo.NotifyInfoRequest, {}, '');
  golden(
    'NotifyInfoResponse packs its versions',
    notifyInfo.NotifyInfoResponse,
    { supportedNotifyVersions: [1] },
    '0a01 01',
  );
});

describe('golden bytes of kubevirt.notify.v1', () => {
  const event = { domainJSON: text('{}'), statusJSON: text('[]'), eventType: 'ADDED' };
  golden('DomainEventRequest', notify.DomainEventRequest, event, '0a02 7b7d 1202 5b5d 1a05 4144444544');
  golden('K8sEventRequest', notify.K8sEventRequest, { eventJSON: text('{}') }, '0a02 7b7d');
  golden('Response', notify.Response, { success: true, message: 'ok' }, '0801 1202 6f6b');
});

describe('golden bytes of kubevirt.cmd.v1', () => {
  golden('EmptyRequest', cmd.EmptyRequest, {}, '');
  golden('Response that failed', cmd.Response, { success: false, message: 'no' }, '1202 6e6f');
  golden(
    'VMIRequest with empty options: present, zero length',
    cmd.VMIRequest,
    { vmi: { vmiJson: text('{}') }, options: {} },
    '0a04 0a02 7b7d 1200',
  );
  golden('VMIRequest without options', cmd.VMIRequest, { vmi: { vmiJson: text('{}') } }, '0a04 0a02 7b7d');
  golden('MigrationRequest', cmd.MigrationRequest, { options: text('x') }, '1201 78');
  golden(
    'FreezeRequest with a negative timeout',
    cmd.FreezeRequest,
    { unfreezeTimeoutSeconds: -1 },
    '10 ffffffffffffffffff01',
  );
  golden(
    'ExecRequest',
    cmd.ExecRequest,
    { domainName: 'd', Command: 'c', Args: ['a', ''], timeoutSeconds: 5 },
    '0a01 64 1201 63 1a01 61 1a00 2005',
  );
  golden(
    'ExecResponse',
    cmd.ExecResponse,
    { response: { success: true }, exitCode: 3, stdOut: 'o' },
    '0a02 0801 1003 1a01 6f',
  );
  golden('DomainResponse', cmd.DomainResponse, { response: { success: true }, domain: '{}' }, '0a02 0801 1202 7b7d');
  golden('ScreenshotResponse', cmd.ScreenshotResponse, { mime: 'm', data: Buffer.from([0xff]) }, '1201 6d 1a01 ff');
  golden(
    'DirtyRateStatsResponse beyond 2^53',
    cmd.DirtyRateStatsResponse,
    { dirtyRateMbs: 9007199254740993n },
    '10 8180808080808010',
  );
  golden(
    'DiskInfo with the largest uint64',
    cmd.DiskInfo,
    { format: 'q', virtualSize: 18446744073709551615n },
    '0a01 71 20 ffffffffffffffffff01',
  );
  golden('InterfaceBindingMigration', cmd.InterfaceBindingMigration, { Method: 'l' }, '0a01 6c');
  golden(
    'ClusterConfig',
    cmd.ClusterConfig,
    { BochsDisplayForEFIGuests: true, GraceIOVirtualizationEnabled: true },
    '1801 3801',
  );
  golden(
    'VirtualMachineOptions',
    cmd.VirtualMachineOptions,
    {
      VirtualMachineSMBios: { manufacturer: 'K', family: 'V' },
      MemBalloonStatsPeriod: 10,
      PreallocatedVolumes: ['r'],
      clusterConfig: { FreePageReportingDisabled: true },
      interfaceDomainAttachment: { default: 'tap' },
      pluginsJson: text('[]'),
      GraceHostDeviceAliases: ['gpu-a'],
    },
    '0a06 0a01 4b 2a01 56 100a 1a01 72 3a02 1001 420e 0a07 64656661756c74 1203 746170 5202 5b5d 5a05 6770752d61',
  );
  golden(
    'Topology with packed siblings',
    cmd.Topology,
    { numa_cells: [{ id: 1, memory: { amount: 1024n, unit: 'KiB' }, cpus: [{ id: 2, siblings: [2, 3] }] }] },
    '0a14 0801 1208 088008 1203 4b6942 2a06 0802 1202 0203',
  );
  golden(
    'VMStatsRequest selects by presence',
    cmd.VMStatsRequest,
    { domainStats: {}, guestGetMemoryBlocks: {} },
    '0a00 820100',
  );
  golden('VMStatsResponse', cmd.VMStatsResponse, { guestGetMemoryBlocks: { success: true } }, '9201 02 0801');
});

describe('decoding', () => {
  it('skips fields of a later version', () => {
    const bytes = Buffer.from('0801 1202 6f6b fa06 03 616263 f8ff0f 07'.replaceAll(' ', ''), 'hex');
    assert.deepEqual(cmd.Response.decode(bytes), { success: true, message: 'ok' });
  });

  it('takes repeated numbers that are not packed', () => {
    assert.deepEqual(cmdInfo.CmdInfoResponse.decode(Buffer.from('08010802', 'hex')).supportedCmdVersions, [1, 2]);
  });

  it('refuses truncated and malformed messages with an error', () => {
    for (const hex of ['0a', '0a05 7b7d', '12ff ffff ff7f', '0b', 'ffffffffffffffffffff01']) {
      assert.throws(() => notify.DomainEventRequest.decode(Buffer.from(hex.replaceAll(' ', ''), 'hex')), hex);
    }
  });

  it('keeps the mixed case of the wire in names', () => {
    const options = cmd.VirtualMachineOptions.fromPartial({});
    const expected = ['VirtualMachineSMBios', 'MemBalloonStatsPeriod', 'PreallocatedVolumes', 'topology', 'DisksInfo'];
    assert.deepEqual(Object.keys(options).slice(0, 5), expected);
  });
});
