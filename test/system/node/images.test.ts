import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { untilLogin } from '../../../src/standalone/index.ts';
import { DiskServer } from '../../fixtures/disk-server.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const mark = 'fetched over http';

describe('disks that come from elsewhere, on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  const server = new DiskServer();
  let url: string;
  let give = () => {};

  before(async () => {
    node = await NodeProcess.create();
    const raw = path.join(node.paths.stateDir, 'raw');
    await writeFile(raw, Buffer.concat([Buffer.from(mark), Buffer.alloc(2 ** 20 - mark.length)]));
    execFileSync('qemu-img', ['convert', '-O', 'qcow2', raw, `${raw}.qcow2`]);
    url = await server.start();
    const held = new Promise<void>((resolve) => {
      give = resolve;
    });
    server.files.set('/disk.qcow2', { bytes: await readFile(`${raw}.qcow2`), held });
    await node.start();
  });
  after(async () => {
    await node?.dispose();
    await server.stop();
  });

  const get = (what: string, jsonpath: string) => node.kubectl('get', what, '-o', `jsonpath={${jsonpath}}`);

  const turn = (name: string, runStrategy: string) =>
    node.kubectl('patch', 'vm', name, '--type=merge', '-p', JSON.stringify({ spec: { runStrategy } }));

  /** The guest boots, and finds the disk on its first and on its third one. */
  async function holds(name: string): Promise<void> {
    await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
    await node.cli(['console', name], 'root\n');
    await eventually(async () => {
      const { stdout } = await node.cli(
        ['console', name],
        '\nfor disk in a c; do head -c 17 /dev/vd$disk; done; echo\n',
      );
      assert.match(stdout, new RegExp(`${mark}${mark}`));
    }, 30_000);
  }

  /** As virtctl does it. */
  async function upload(claim: string, file: string): Promise<void> {
    const upload = 'upload.cdi.kubevirt.io/v1beta1';
    const request = path.join(node.paths.stateDir, 'upload.json');
    await writeFile(
      request,
      JSON.stringify({ apiVersion: upload, kind: 'UploadTokenRequest', spec: { pvcName: claim } }),
    );
    const answer = await node.kubectl(
      'create',
      '--raw',
      `/apis/${upload}/namespaces/default/uploadtokenrequests`,
      '-f',
      request,
    );
    const proxy = await get('cdiconfig/config', '.status.uploadProxyURL');
    const ca = path.join(node.paths.stateDir, 'api', 'certificates', 'ca.crt');
    const bearer = `Authorization: Bearer ${JSON.parse(answer).status.token}`;
    execFileSync('curl', [
      '-sSf',
      '--cacert',
      ca,
      '-H',
      bearer,
      '--data-binary',
      `@${file}`,
      `${proxy}/v1beta1/upload`,
    ]);
  }

  test('a VM waits for the disk of its template, over kill -9 of the node, and boots with it', async () => {
    const { spec } = demoVmi('fetched', { volumes: [{ name: 'root', dataVolume: { name: 'fetched' } }] });
    spec.domain.devices = { ...spec.domain.devices, disks: [{ name: 'root', disk: { bus: 'virtio' } }] };
    const storage = { resources: { requests: { storage: '4Mi' } } };
    const source = { http: { url: `${url}/disk.qcow2` } };
    await node.apply({
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'fetched' } },
      spec: {
        runStrategy: 'Always',
        dataVolumeTemplates: [{ metadata: { name: 'fetched' }, spec: { source, storage } }],
        template: { spec },
      },
    });
    const untilAsked = (times: number) =>
      eventually(() => assert.ok(server.requests.length >= times, `${server.requests.length} requests`), 60_000);
    await untilAsked(1);
    await eventually(async () => assert.equal(await get('dv/fetched', '.status.phase'), 'ImportInProgress'), 30_000);
    await eventually(
      async () => assert.equal(await get('vm/fetched', '.status.printableStatus'), 'Provisioning'),
      30_000,
    );
    await node.end('SIGKILL');
    await node.start();
    await untilAsked(2);
    assert.equal(await node.vmi('fetched'), undefined);
    give();
    await node.vmiUntil('fetched', (found) => found?.status?.phase === 'Running', 60_000);
    assert.equal(await get('dv/fetched', '.status.phase'), 'Succeeded');
    assert.equal(await get('pvc/fetched', '.metadata.ownerReferences[0].kind'), 'DataVolume');
    await untilLogin(await node.serial('fetched'), AbortSignal.timeout(60_000));
    await node.cli(['console', 'fetched'], 'root\n');
    await eventually(async () => {
      const { stdout } = await node.cli(
        ['console', 'fetched'],
        '\nhead -c 17 /dev/vda; echo; blockdev --getsize64 /dev/vda\n',
      );
      assert.match(stdout, /fetched over http/);
    }, 30_000);
    const left = (await readdir(node.paths.claimsDir)).filter((name) => name.startsWith('.'));
    assert.deepEqual(left, []);
  });

  test('a claim that is a block device is filled, too', async () => {
    const storage = { volumeMode: 'Block', resources: { requests: { storage: '4Mi' } } };
    const source = { http: { url: `${url}/disk.qcow2` } };
    const metadata = { name: 'device' };
    await node.apply({
      apiVersion: 'cdi.kubevirt.io/v1beta1',
      kind: 'DataVolume',
      metadata,
      spec: { source, storage },
    });
    await eventually(async () => assert.equal(await get('dv/device', '.status.phase'), 'Succeeded'), 60_000);
    const uid = await get('pvc/device', '.metadata.uid');
    const disk = await readFile(path.join(node.paths.claimsDir, `default_device_${uid}`, 'disk.img'));
    assert.deepEqual([disk.length, disk.subarray(0, mark.length).toString()], [4 * 2 ** 20, mark]);
  });

  test('a VM on a class that waits for a consumer starts when all its disks are filled, and again after a restore', async () => {
    await node.apply({
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'late' } },
      ...{ provisioner: 'local.virt-node', volumeBindingMode: 'WaitForFirstConsumer' },
    });
    const file = path.join(node.paths.stateDir, 'raw.qcow2');
    server.files.set('/late.qcow2', { bytes: await readFile(file) });
    const sources = {
      'late-http': { http: { url: `${url}/late.qcow2` } },
      'late-blank': { blank: {} },
      'late-upload': { upload: {} },
    };
    const names = Object.keys(sources);
    const storage = { storageClassName: 'late', resources: { requests: { storage: '4Mi' } } };
    const volumes = names.map((name) => ({ name, dataVolume: { name } }));
    const { spec } = demoVmi('late', { volumes });
    spec.domain.devices = { ...spec.domain.devices, disks: names.map((name) => ({ name, disk: { bus: 'virtio' } })) };
    await node.apply({
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'late' } },
      spec: {
        runStrategy: 'Halted',
        dataVolumeTemplates: Object.entries(sources).map(([name, source]) => ({
          metadata: { name },
          spec: { source, storage },
        })),
        template: { spec },
      },
    });
    const phases = async () => (await Promise.all(names.map((name) => get(`dv/${name}`, '.status.phase')))).join();
    const become = (expected: string) => eventually(async () => assert.equal(await phases(), expected), 60_000);
    await become('WaitForFirstConsumer,WaitForFirstConsumer,WaitForFirstConsumer');
    await turn('late', 'Always');
    await become('Succeeded,Succeeded,UploadReady');
    assert.notEqual(await get('vmi/late', '.status.phase'), 'Running');
    await upload('late-upload', file);
    await holds('late');
    await become('Succeeded,Succeeded,Succeeded');
    await turn('late', 'Halted');
    await node.vmiUntil('late', (found) => found === undefined, 60_000);
    const group = { apiVersion: 'snapshot.kubevirt.io/v1beta1' };
    const late = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'late' };
    await node.apply({ ...group, kind: 'VirtualMachineSnapshot', metadata: { name: 'kept' }, spec: { source: late } });
    await node.kubectl('wait', 'vmsnapshot/kept', '--for=condition=Ready', '--timeout=60s');
    // What is restored comes from nowhere else.
    server.files.delete('/late.qcow2');
    const restore = { target: late, virtualMachineSnapshotName: 'kept' };
    await node.apply({ ...group, kind: 'VirtualMachineRestore', metadata: { name: 'back' }, spec: restore });
    await node.kubectl('wait', 'vmrestore/back', '--for=condition=Ready', '--timeout=60s');
    const restored = await get('dv', '.items[*].status.phase');
    assert.match(restored, /WaitForFirstConsumer WaitForFirstConsumer WaitForFirstConsumer/);
    await turn('late', 'Always');
    await holds('late');
    await node.kubectl('delete', 'vm', 'late', '--timeout=60s');
  });

  test('an installation medium puts a system on an empty disk, which then boots without it', async () => {
    const added = await node.cli(['image', 'add', 'my/installer', path.resolve('.cache/installer/installer.iso')]);
    assert.equal(added.code, 0, added.stderr);
    const disk = { spec: { source: { blank: {} }, storage: { resources: { requests: { storage: '256Mi' } } } } };
    const { spec } = demoVmi('installed');
    Object.assign(spec.domain, {
      memory: { guest: '256Mi' },
      firmware: { bootloader: { efi: { secureBoot: false } } },
      devices: {
        disks: [
          // Empty at first: then the firmware goes on with the next.
          { name: 'root', bootOrder: 1, disk: { bus: 'virtio' } },
          { name: 'medium', bootOrder: 2, cdrom: { bus: 'scsi' } },
        ],
      },
    });
    const volumes = [
      { name: 'root', dataVolume: { name: 'installed' } },
      { name: 'medium', containerDisk: { image: 'my/installer' } },
    ];
    await node.apply({
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'installed' } },
      spec: {
        runStrategy: 'Always',
        dataVolumeTemplates: [{ metadata: { name: 'installed' }, ...disk }],
        template: { spec: { ...spec, networks: undefined, volumes } },
      },
    });
    await node.vmiUntil('installed', (found) => found?.status?.phase === 'Running', 60_000);
    const serial = await node.serial('installed');
    let shown = '';
    serial.on('data', (chunk: Buffer) => (shown += chunk.toString('latin1')));
    // Nothing is typed: a boot loader would take it for the wish to see its menu.
    try {
      await eventually(() => assert.match(shown, /installer: done.*installed login:/s), 180_000);
    } finally {
      serial.destroy();
    }
    await node.kubectl('delete', 'vm', 'installed');
    await node.vmiUntil('installed', (found) => found === undefined, 60_000);
    const removed = await node.cli(['image', 'rm', 'my/installer']);
    assert.equal(removed.code, 0, removed.stderr);
  });

  test('an image that a VM runs with is not replaced or removed, and it is said which VM that is', async () => {
    const list = await node.cli(['image', 'list']);
    assert.match(list.stdout, /^REFERENCE +FORMAT +DISK +ON THIS MACHINE +ADDED\nvirt-node\/demo +- +- +\d/);
    for (const command of [
      ['add', 'virt-node/demo', path.join(node.paths.stateDir, 'raw.qcow2')],
      ['rm', 'virt-node/demo'],
    ]) {
      const { code, stderr } = await node.cli(['image', ...command]);
      assert.equal(code, 1);
      assert.match(
        stderr,
        /^virt-node: virt-node\/demo is used by VM default\/fetched: it is not (replaced|removed)\. /,
      );
    }
    assert.match((await node.cli(['image', 'info', 'virt-node/demo'])).stdout, /^used by +VM default\/fetched$/m);
  });

  test('of a node that does not run, a pod that outlived it keeps its image', async () => {
    await node.end('SIGTERM');
    const { code, stderr } = await node.cli(['image', 'rm', 'virt-node/demo']);
    assert.equal(code, 1);
    assert.match(stderr, /virt-node\/demo is used by a pod that runs \(UID [0-9a-f-]{36}\): it is not removed/);
    // So that the VM ends with the node.
    await node.start();
  });
});
