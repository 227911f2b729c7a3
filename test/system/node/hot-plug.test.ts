import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const needsLoop = existsSync('/dev/loop-control') ? false : 'there are no loop devices';
const name = 'plugged';

function claim(claimName: string, spec: object = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: claimName },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } }, ...spec },
  };
}

describe('claims that are plugged into a guest of the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply(demoVmi(name));
    await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
    await node.cli(['console', name], 'root\n');
  });
  after(() => node.dispose());

  const run = async (commands: string) => (await node.cli(['console', name], `\n${commands}\n`)).stdout;
  const disks = () => run('echo "disks:" $(ls /sys/block | grep -v ram | grep -v loop) "."');
  /** As virtctl does. */
  async function ask(subresource: string, body: object): Promise<void> {
    const group = '/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances';
    const file = path.join(node.paths.stateDir, 'asked.json');
    await writeFile(file, JSON.stringify(body));
    await node.kubectl('replace', '--raw', `${group}/${name}/${subresource}`, '-f', file);
  }
  const plug = (volume: string) =>
    ask('addvolume', {
      name: volume,
      disk: { name: volume, serial: volume, disk: { bus: 'scsi' } },
      volumeSource: { persistentVolumeClaim: { claimName: volume } },
    });
  const phaseOf = async (volume: string) =>
    (await node.vmi(name))?.status?.volumeStatus?.find((each) => each.name === volume)?.phase;
  const untilPhase = (volume: string, phase: string | undefined) =>
    eventually(async () => assert.equal(await phaseOf(volume), phase), 60_000);

  test('a claim is plugged in: the guest sees the disk and writes to it', async () => {
    await node.apply(claim('data'));
    await plug('data');
    await untilPhase('data', 'Ready');
    await eventually(async () => assert.match(await disks(), /disks: sda \./), 30_000);
    await run('echo kept by the claim | dd of=/dev/sda conv=fsync');
    assert.equal(await node.kubectl('get', 'pvc', 'data', '-o', 'jsonpath={.status.phase}'), 'Bound');
    const uid = await node.kubectl('get', 'pvc', 'data', '-o', 'jsonpath={.metadata.uid}');
    const image = path.join(node.paths.claimsDir, `default_data_${uid}`, 'disk.img');
    await eventually(async () => {
      const bytes = await readFile(image);
      assert.deepEqual([bytes.length, bytes.subarray(0, 17).toString()], [16 * 1024 * 1024, 'kept by the claim']);
    }, 30_000);
  });

  test('it stays over kill -9 of the agent and of the node, and is plugged out afterwards', async () => {
    process.kill(await node.pidOf('virt-handler'), 'SIGKILL');
    await node.end('SIGKILL');
    await node.start();
    await eventually(async () => assert.match(await run('head -c 17 /dev/sda; echo'), /kept by the claim/), 30_000);
    await ask('removevolume', { name: 'data' });
    await eventually(async () => assert.match(await disks(), /disks: \./), 60_000);
    await untilPhase('data', undefined);
    await eventually(
      async () => assert.equal(await node.kubectl('get', 'pods', '-l', 'kubevirt.io=hotplug-disk', '-o', 'name'), ''),
      60_000,
    );
  });

  test('a second guest finds in it what the first one wrote', async () => {
    const devices = demoVmi('second').spec.domain.devices;
    const second = demoVmi('second', { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] });
    second.spec.domain.devices = { ...devices, disks: [{ name: 'data', disk: { bus: 'virtio' } }] };
    await node.apply(second);
    await node.vmiUntil('second', (found) => found?.status?.phase === 'Running', 60_000);
    await untilLogin(await node.serial('second'), AbortSignal.timeout(60_000));
    await node.cli(['console', 'second'], 'root\n');
    await eventually(async () => {
      const { stdout } = await node.cli(['console', 'second'], '\nhead -c 17 /dev/vda; echo\n');
      assert.match(stdout, /kept by the claim/);
    }, 30_000);
  });

  test('a claim that is a block device is plugged in, and its bytes are in its file', { skip: needsLoop }, async () => {
    await node.apply(claim('raw', { volumeMode: 'Block' }));
    await plug('raw');
    await untilPhase('raw', 'Ready');
    await eventually(async () => assert.match(await disks(), /disks: sd[ab] \./), 30_000);
    await run('echo kept by the device | dd of=$(ls -d /dev/sd?) conv=fsync');
    const uid = await node.kubectl('get', 'pvc', 'raw', '-o', 'jsonpath={.metadata.uid}');
    const image = path.join(node.paths.claimsDir, `default_raw_${uid}`, 'disk.img');
    await ask('removevolume', { name: 'raw' });
    await untilPhase('raw', undefined);
    await eventually(async () => {
      const bytes = await readFile(image);
      assert.equal(bytes.subarray(0, 18).toString(), 'kept by the device');
    }, 30_000);
    assert.equal((await node.vmi(name))?.status?.phase, 'Running');
  });
});
