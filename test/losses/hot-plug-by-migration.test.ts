import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, parseQuantity, type VirtualMachineInstance } from '../../src/api/index.ts';
import { untilLogin } from '../../src/standalone/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'grows';

interface Size {
  readonly sockets: number;
  readonly memoryMi: number;
}

/** CPUs and memory that a VM gets while it runs come with a migration to a larger pod; all parts are real. */
describe('a VM of two nodes that is changed while it runs', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let atStart: Awaited<ReturnType<typeof look>>;
  before(async () => {
    node = await NodeProcess.create();
    await node.start(['start', '--nodes', '2', '--node-name', 'box']);
    const able = ['-l', 'machine-type.node.kubevirt.io/q35=true', '-o', 'jsonpath={.items[*].metadata.name}'];
    await eventually(async () => assert.equal(await node.kubectl('get', 'nodes', ...able), 'box box-2'), 30_000);
    const { spec } = demoVmi(name);
    const domain = { ...spec.domain, cpu: { sockets: 1 }, memory: { guest: '1Gi' } };
    await node.apply({
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachine',
      metadata: { name },
      spec: { runStrategy: 'Always', template: { spec: { ...spec, domain } } },
    });
    await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
    await node.cli(['console', name], 'root\n');
    await run('echo online_movable > /sys/devices/system/memory/auto_online_blocks');
    atStart = await look();
  });
  after(() => node.dispose());

  const run = async (commands: string) => (await node.cli(['console', name], `\n${commands}\n`)).stdout;

  /** What the guest's kernel has found. */
  async function look(): Promise<{ cpus: string; memoryMi: number; bootId: string }> {
    const cpus = '$(cat /sys/devices/system/cpu/present)';
    const bootId = '$(cat /proc/sys/kernel/random/boot_id)';
    const shown = await run(`echo "size:" ${cpus} $(grep MemTotal /proc/meminfo) ${bootId} "."`);
    const [, found = '', kib, boot = ''] = /size: (\S+) MemTotal: (\d+) kB (\S+) \./.exec(shown) ?? assert.fail(shown);
    return { cpus: found, memoryMi: Number(kib) / 1024, bootId: boot };
  }

  const grow = ({ sockets, memoryMi }: Size) => {
    const template = { spec: { domain: { cpu: { sockets }, memory: { guest: `${memoryMi}Mi` } } } };
    return node.kubectl('patch', 'vm', name, '--type=merge', '-p', JSON.stringify({ spec: { template } }));
  };

  /** The VMI is as large as its template, on this node, and nothing is left to do. */
  const untilSettled = (on: string, { sockets, memoryMi }: Size) =>
    eventually(async () => {
      const { status } = (await node.vmi(name)) ?? {};
      const conditions = status?.conditions?.filter(({ type }) => type.startsWith('Hot'));
      assert.deepEqual([status?.nodeName, conditions, status?.currentCPUTopology?.sockets], [on, [], sockets]);
      const { guestRequested, guestCurrent } = status?.memory ?? {};
      assert.deepEqual([guestRequested, guestCurrent].map(parseQuantity), Array(2).fill(memoryMi * 2 ** 20));
    }, 90_000);

  async function assertGrown({ sockets, memoryMi }: Size): Promise<void> {
    await eventually(async () => {
      const { cpus, memoryMi: has, bootId } = await look();
      assert.deepEqual([cpus, bootId], [`0-${sockets - 1}`, atStart.bootId]);
      const more = has - atStart.memoryMi;
      assert.ok(Math.abs(more - (memoryMi - 1024)) <= 8, `${more} MiB more than at its start`);
    }, 30_000);
  }

  /** Memory requests of launchers that run, and how migrations ended. */
  async function seen(): Promise<{ requests: number[]; migrations: string[] }> {
    const ofPods = ['pods', '-l', 'kubevirt.io=virt-launcher', '--field-selector', 'status.phase=Running'];
    const request = '{.items[*].spec.containers[?(@.name=="compute")].resources.requests.memory}';
    const requests = (await node.kubectl('get', ...ofPods, '-o', `jsonpath=${request}`)).split(' ');
    const migrations = await node.kubectl('get', 'vmim', '-o', 'jsonpath={.items[*].status.phase}');
    return { requests: requests.map((each) => parseQuantity(each) ?? 0), migrations: migrations.split(' ') };
  }

  /** As virtctl does. */
  async function plug(volume: string): Promise<void> {
    const group = '/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances';
    const file = path.join(node.paths.stateDir, 'asked.json');
    const disk = { name: volume, serial: volume, disk: { bus: 'scsi' } };
    const body = { name: volume, disk, volumeSource: { persistentVolumeClaim: { claimName: volume } } };
    await writeFile(file, JSON.stringify(body));
    await node.kubectl('replace', '--raw', `${group}/${name}/addvolume`, '-f', file);
  }

  test('more sockets and memory in its template come with one migration to a larger pod, and its guest has them', async () => {
    const [before = 0] = (await seen()).requests;
    const size = { sockets: 2, memoryMi: 1280 };
    await grow(size);
    await untilSettled('box-2', size);
    await assertGrown(size);
    await eventually(async () => {
      const { requests, migrations } = await seen();
      assert.deepEqual([requests.length, migrations], [1, ['Succeeded']]);
      assert.ok((requests[0] ?? 0) >= before + 256 * 2 ** 20, `${before}, ${requests}`);
    }, 30_000);
    const vm = JSON.parse(await node.kubectl('get', 'vm', name, '-o', 'json'));
    assert.equal(findCondition(vm.status.conditions, 'RestartRequired'), undefined);
  });

  test('it grows once more: what was plugged in moves with it', async () => {
    const size = { sockets: 3, memoryMi: 1536 };
    await grow(size);
    await untilSettled('box', size);
    await assertGrown(size);
  });

  test('a volume that is plugged in while the guest moves is told to wait, and comes when it has arrived', async () => {
    // So slow that something can happen meanwhile.
    const change = { spec: { configuration: { migrations: { bandwidthPerMigration: '16Mi' } } } };
    await node.kubectl('patch', 'kubevirt', 'kubevirt', '-n', 'kubevirt', '--type=merge', '-p', JSON.stringify(change));
    await node.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'data' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } },
    });
    const move = node.cli(['migrate', name]);
    await eventually(async () => assert.ok((await seen()).migrations.includes('Running')), 30_000);
    await plug('data');
    const held = /while the guest migrates, volumes are not plugged into the guest: data/;
    const isHeld = (vmi: VirtualMachineInstance | undefined) =>
      held.test(findCondition(vmi?.status?.conditions, 'Synchronized')?.message ?? '');
    await node.vmiUntil(name, isHeld);
    const { code, stderr } = await move;
    assert.equal(code, 0, stderr);
    const phaseOf = ({ status }: VirtualMachineInstance) =>
      status?.volumeStatus?.find((volume) => volume.name === 'data')?.phase;
    const vmi = await node.vmiUntil(name, (found) => found !== undefined && phaseOf(found) === 'Ready', 60_000);
    assert.deepEqual([vmi?.status?.nodeName, isHeld(vmi)], ['box-2', false]);
    await eventually(
      async () => assert.match(await run('echo "sectors" $(cat /sys/block/sda/size)'), /sectors 32768/),
      30_000,
    );
    assert.equal((await look()).bootId, atStart.bootId);
    await eventually(async () => {
      const columns = 'custom-columns=KIND:.metadata.labels.kubevirt\\.io,NODE:.spec.nodeName,PHASE:.status.phase';
      const pods = await node.kubectl(
        'get',
        'pods',
        '--no-headers',
        '--field-selector',
        'status.phase=Running',
        '-o',
        columns,
      );
      const left = pods.split('\n').map((line) => line.split(/\s+/).join(' '));
      assert.deepEqual(left.sort(), ['hotplug-disk box-2 Running', 'virt-launcher box-2 Running']);
    }, 30_000);
  });
});
