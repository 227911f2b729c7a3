import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Codec, decodeWith, encodeWith } from '../../../src/libvirt/codec.ts';
import { cpuIndexes, cpumapOf } from '../../../src/libvirt/cpumap.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';

const domain = { name: 'test', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const handle = '00000004 74657374 6695eb01f6a4830479aa97f2502e193f 00000001';

function bothWays<T>(codec: Codec<T>, value: T, bytes: string): void {
  const wire = Buffer.from(bytes.replaceAll(' ', ''), 'hex');
  assert.equal(encodeWith(codec, value).toString('hex'), wire.toString('hex'));
  assert.deepEqual(decodeWith(codec, wire), value);
}

test('sample payloads are read and written', () => {
  bothWays(procedures.authList.reply, { types: [0] }, '00000001 00000000');
  bothWays(
    procedures.connectOpen.args,
    { name: 'test:///default', flags: 0 },
    '00000001 0000000f 746573743a2f2f2f64656661756c7400 00000000',
  );
  bothWays(procedures.connectGetUri.reply, { value: 'test:///default' }, '0000000f 746573743a2f2f2f64656661756c7400');
  bothWays(procedures.domainLookupByName.reply, { domain }, handle);
  bothWays(procedures.connectGetLibVersion.reply, { value: 9_000_000n }, '0000000000895440');
});

test('calls of the launcher put their arguments in the order of the protocol', () => {
  bothWays(procedures.domainCreateWithFlags.args, { domain, flags: 1 }, `${handle} 00000001`);
  bothWays(
    procedures.domainBlockResize.args,
    { domain, disk: 'vda', size: 2n, flags: 1 },
    `${handle} 00000003 76646100 0000000000000002 00000001`,
  );
  bothWays(procedures.registerEvent.args, { event: 0, domain: undefined }, '00000000 00000000');
  bothWays(procedures.registerEvent.args, { event: 18, domain }, `00000012 00000001 ${handle}`);
  bothWays(
    procedures.agentCommand.args,
    { domain, command: '{}', timeoutSeconds: -1, flags: 0 },
    `${handle} 00000002 7b7d0000 ffffffff 00000000`,
  );
  bothWays(
    procedures.connectGetAllDomainStats.args,
    { domains: [], stats: 63, flags: 2 ** 31 },
    '00000000 0000003f 80000000',
  );
  bothWays(
    procedures.domainInterfaceAddresses.reply,
    { interfaces: [{ name: 'lo', hwaddr: undefined, addresses: [{ type: 0, address: '::1', prefix: 8 }] }] },
    '00000001 00000002 6c6f0000 00000000 00000001 00000000 00000003 3a3a3100 00000008',
  );
});

test('calls of encrypted guests have the numbers and the order of the protocol', () => {
  const numbers = [
    procedures.nodeGetSevInfo,
    procedures.domainGetLaunchSecurityInfo,
    procedures.domainSetLaunchSecurityState,
  ];
  assert.deepEqual(
    numbers.map(({ number }) => number),
    [395, 396, 439],
  );
  bothWays(procedures.nodeGetSevInfo.args, { count: 0, flags: 0 }, '00000000 00000000');
  bothWays(
    procedures.nodeGetSevInfo.reply,
    { params: [{ field: 'pdh', type: 'string', value: 'UA==' }], count: 1 },
    '00000001 00000003 70646800 00000007 00000004 55413d3d 00000001',
  );
  bothWays(
    procedures.domainGetLaunchSecurityInfo.reply,
    { params: [{ field: 'sev-policy', type: 'uint', value: 5 }] },
    '00000001 0000000a 7365762d706f6c6963790000 00000002 00000005',
  );
  bothWays(
    procedures.domainSetLaunchSecurityState.args,
    { domain, params: [{ field: 'sev-secret', type: 'string', value: 'YQ==' }], flags: 0 },
    `${handle} 00000001 0000000a 7365762d736563726574 0000 00000007 00000004 59513d3d 00000000`,
  );
});

test('fixed-size replies have the size that real daemons send', () => {
  const node = { model: 'x86_64', memoryKiB: 1n, cpus: 2, mhz: 3, nodes: 1, sockets: 1, cores: 2, threads: 1 };
  assert.equal(encodeWith(procedures.nodeGetInfo.reply, node).length, 160);
  const info = { state: 1, maxMemoryKiB: 1n, memoryKiB: 1n, vcpus: 1, cpuTimeNs: 1n };
  assert.equal(encodeWith(procedures.domainGetInfo.reply, info).length, 32);
});

test('no two calls share a number of one program', () => {
  const keys = Object.values(procedures).map(({ program, number }) => `${program}/${number}`);
  assert.equal(new Set(keys).size, keys.length);
  assert.equal(procedures.agentCommand.program, Program.QEMU);
});

test('a CPU list is a bitmap with the lowest CPU in the lowest bit', () => {
  assert.deepEqual(cpumapOf([0, 3, 9]), Buffer.from([0b1001, 0b10]));
  assert.deepEqual(cpuIndexes(Buffer.from([0b1001, 0b10])), [0, 3, 9]);
  for (const bad of [[], [-1], [1.5], [16_384], [Number.NaN]]) {
    assert.throws(() => cpumapOf(bad), { code: 'INVALID_ARGUMENT' });
  }
});

test('backups and checkpoints are asked for as remote_protocol.x has it', () => {
  const { domainBackupBegin, domainCheckpointCreateXml, domainCheckpointListAll, domainCheckpointDelete } = procedures;
  const numbers = [domainBackupBegin, domainCheckpointCreateXml, domainCheckpointListAll, domainCheckpointDelete];
  assert.deepEqual(
    numbers.map(({ number }) => number),
    [421, 411, 413, 417],
  );
  const checkpoint = `00000002 63700000 ${handle}`;
  bothWays(
    domainBackupBegin.args,
    { domain, backupXml: '<b/>', checkpointXml: '<c/>', flags: 0 },
    `${handle} 00000004 3c622f3e 00000001 00000004 3c632f3e 00000000`,
  );
  bothWays(domainCheckpointCreateXml.args, { domain, xml: '<c/>', flags: 5 }, `${handle} 00000004 3c632f3e 00000005`);
  bothWays(
    domainCheckpointListAll.reply,
    { checkpoints: [{ name: 'cp', domain }], count: 1 },
    `00000001 ${checkpoint} 00000001`,
  );
  bothWays(domainCheckpointDelete.args, { checkpoint: { name: 'cp', domain }, flags: 0 }, `${checkpoint} 00000000`);
});
