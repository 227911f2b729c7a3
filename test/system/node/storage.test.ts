import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { download, forwardPort } from '../../fixtures/export-download.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const isBlockPossible = existsSync('/dev/loop-control');
const snapshotGroup = 'snapshot.storage.k8s.io';

function claim(name: string, spec: object = {}, storage = '16Mi'): object {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } }, ...spec },
  };
}

/** A virtual machine with these claims as its disks, in order. */
function machine(name: string, claims: readonly string[]): object {
  const { spec } = demoVmi(name);
  const volumes = claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
  const disks = claims.map((each) => ({ name: each, disk: { bus: 'virtio' } }));
  const domain = { ...spec.domain, devices: { ...spec.domain.devices, disks } };
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name },
    spec: { runStrategy: 'Always', template: { spec: { ...spec, domain, volumes } } },
  };
}

describe('data that is kept by the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  const claims = isBlockPossible ? ['data', 'raw'] : ['data'];
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply(claim('data'));
    await node.apply(claim('raw', { volumeMode: 'Block' }));
    await node.apply(machine('keeper', claims));
  });
  after(() => node.dispose());

  async function untilUp(name: string): Promise<void> {
    await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
    await node.cli(['console', name], 'root\n');
  }
  const run = async (name: string, commands: string) => (await node.cli(['console', name], `\n${commands}\n`)).stdout;
  async function turn(runStrategy: 'Always' | 'Halted'): Promise<void> {
    await node.kubectl('patch', 'vm', 'keeper', '--type=merge', '-p', JSON.stringify({ spec: { runStrategy } }));
    if (runStrategy === 'Always') await untilUp('keeper');
    else await node.vmiUntil('keeper', (found) => found === undefined, 60_000);
  }

  test('what a guest wrote is there after the VM was stopped, the whole node was stopped, and both were started', async () => {
    await untilUp('keeper');
    await run('keeper', 'for disk in /dev/vd?; do echo kept on $disk | dd of=$disk conv=fsync; done');
    await turn('Halted');
    await node.cli(['stop']);
    await node.ended();
    await node.start();
    await turn('Always');
    const heads = `for disk in ${claims.map((_, at) => `/dev/vd${'ab'[at]}`).join(' ')}; do head -c 16 $disk; done; echo`;
    await eventually(async () => {
      const shown = await run('keeper', heads);
      for (const [at] of claims.entries()) assert.match(shown, new RegExp(`kept on /dev/vd${'ab'[at]}`));
    }, 30_000);
  });

  test('a claim that grows: the guest that runs sees all of it', async () => {
    for (const name of claims) {
      const body = { spec: { resources: { requests: { storage: '32Mi' } } } };
      await node.kubectl('patch', 'pvc', name, '--type=merge', '-p', JSON.stringify(body));
    }
    await eventually(async () => {
      const shown = await run('keeper', 'echo sizes $(cat /sys/block/vd?/size) end');
      assert.match(shown, new RegExp(`sizes ${claims.map(() => '65536').join(' ')} end`));
    }, 60_000);
  });

  test('the VM goes back to its snapshot, and a clone of it boots', async () => {
    const group = 'snapshot.kubevirt.io/v1beta1';
    const keeper = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'keeper' };
    const shows = (name: string, word: string) =>
      eventually(async () => {
        const shown = await run(name, 'dd if=/dev/vda bs=512 skip=8 count=1 2>/dev/null | head -c 5; echo');
        assert.match(shown, new RegExp(word));
      }, 30_000);
    const write = (word: string) => run('keeper', `echo ${word} | dd of=/dev/vda bs=512 seek=8 conv=fsync`);
    await write('first');
    await turn('Halted');
    await node.apply({
      apiVersion: group,
      kind: 'VirtualMachineSnapshot',
      metadata: { name: 'snap' },
      spec: { source: keeper },
    });
    await node.kubectl('wait', 'vmsnapshot/snap', '--for=condition=Ready', '--timeout=60s');
    const [header = '', line = ''] = (await node.kubectl('get', 'vmsnapshot', 'snap')).split('\n');
    assert.match(header, /^NAME +SOURCEKIND +SOURCENAME +PHASE +READYTOUSE +CREATIONTIME +ERROR/);
    assert.match(line, /^snap +VirtualMachine +keeper +Succeeded +true +\d+s/);
    await turn('Always');
    await write('later');
    await shows('keeper', 'later');
    await turn('Halted');
    const spec = { target: keeper, virtualMachineSnapshotName: 'snap' };
    await node.apply({ apiVersion: group, kind: 'VirtualMachineRestore', metadata: { name: 'back' }, spec });
    await node.kubectl('wait', 'vmrestore/back', '--for=condition=Ready', '--timeout=60s');
    await turn('Always');
    await shows('keeper', 'first');
    const source = { apiGroup: 'snapshot.kubevirt.io', kind: 'VirtualMachineSnapshot', name: 'snap' };
    const clone = { apiVersion: 'clone.kubevirt.io/v1beta1', kind: 'VirtualMachineClone', metadata: { name: 'twin' } };
    await node.apply({ ...clone, spec: { source, target: { ...keeper, name: 'twin' } } });
    await node.kubectl('wait', 'vmclone/twin', '--for=condition=Ready', '--timeout=60s');
    await node.kubectl(
      'patch',
      'vm',
      'twin',
      '--type=merge',
      '-p',
      JSON.stringify({ spec: { runStrategy: 'Always' } }),
    );
    await untilUp('twin');
    await shows('twin', 'first');
    await node.kubectl('delete', 'vm/twin', 'vmsnapshot/snap', '--timeout=60s');
  });

  test('the disks of a stopped VM are downloaded as they are, and its start takes the exporter away', async () => {
    await turn('Halted');
    const source = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'keeper' };
    const metadata = { name: 'out' };
    await node.apply({ apiVersion: 'export.kubevirt.io/v1', kind: 'VirtualMachineExport', metadata, spec: { source } });
    await node.kubectl('wait', 'vmexport/out', '--for=condition=Ready', '--timeout=50s');
    const { status } = JSON.parse(await node.kubectl('get', 'vmexport', 'out', '-o', 'json'));
    const { cert, volumes, manifests } = status.links.internal;
    const secret = await node.kubectl('get', 'secret', status.tokenSecretRef, '-o', 'jsonpath={.data.token}');
    const token = Buffer.from(secret, 'base64').toString();
    await using forward = await forwardPort(node, `service/${status.serviceName}`, 443);
    const get = (url: string, shown = token) => download({ url, port: forward.port, cert, token: shown });
    assert.equal(volumes.length, claims.length);
    for (const { name, formats } of volumes) {
      const { uid } = JSON.parse(await node.kubectl('get', 'pvc', name, '-o', 'json')).metadata;
      const disk = await readFile(path.join(node.paths.claimsDir, `default_${name}_${uid}`, 'disk.img'));
      const [raw, gzip] = await Promise.all(formats.map(({ url }: { url: string }) => get(url)));
      assert.ok(raw?.body.equals(disk), `${name}: ${raw?.status}, ${raw?.body.length} of ${disk.length} bytes`);
      assert.ok(gunzipSync(gzip?.body ?? Buffer.alloc(0)).equals(disk));
      assert.match(disk.toString('latin1', 0, 16), /^kept on /);
    }
    assert.equal((await get(volumes[0].formats[0].url, 'wrong')).status, 401);
    const { items } = JSON.parse((await get(manifests[0].url)).body.toString());
    assert.deepEqual(items.map(({ kind }: { kind: string }) => kind).slice(0, 2), ['ConfigMap', 'VirtualMachine']);
    await turn('Always');
    await node.kubectl('wait', 'vmexport/out', '--for=condition=Ready=false', '--timeout=50s');
    await node.kubectl('delete', 'vmexport', 'out', '--timeout=50s');
    const all = ['get', 'pod,service,secret,configmap', '-o', 'name'];
    await eventually(async () => assert.doesNotMatch(await node.kubectl(...all), /export/), 30_000);
  });

  test('a snapshot, and a second VM that begins with it; with the claims the data goes', async () => {
    await node.apply({
      apiVersion: `${snapshotGroup}/v1`,
      kind: 'VolumeSnapshot',
      metadata: { name: 'evening' },
      spec: { source: { persistentVolumeClaimName: 'data' } },
    });
    await turn('Halted');
    await eventually(
      async () =>
        assert.equal(
          await node.kubectl('get', 'volumesnapshot', 'evening', '-o', 'jsonpath={.status.readyToUse}'),
          'true',
        ),
      30_000,
    );
    const dataSource = { apiGroup: snapshotGroup, kind: 'VolumeSnapshot', name: 'evening' };
    await node.apply(claim('restored', { dataSource }, '32Mi'));
    await node.apply(machine('second', ['restored']));
    await untilUp('second');
    await eventually(
      async () => assert.match(await run('second', 'head -c 16 /dev/vda; echo'), /kept on \/dev\/vda/),
      30_000,
    );
    await node.kubectl('delete', 'vm', 'second', 'keeper', '--wait=false');
    await node.kubectl('delete', 'pvc', '--all', '--timeout=60s');
    await eventually(async () => assert.deepEqual(await readdir(node.paths.claimsDir), []), 30_000);
  });
});
