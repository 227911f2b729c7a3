import assert from 'node:assert/strict';
import { Dirent } from 'node:fs';
import { chown, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { PersistentVolume, PersistentVolumeClaim, Pod, PodVolume, VolumeMount } from '../../../src/api/index.ts';
import {
  ClaimDirectories,
  driver,
  HostDisks,
  ImageStore,
  prepareVolumes,
  VolumeFiles,
} from '../../../src/standalone/index.ts';
import type { PodSource } from '../../../src/standalone/pod-runner/ports.ts';
import { refreshObjects } from '../../../src/standalone/pod-runner/volumes.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'kubelet’s owner of volumes takes root';

describe('volumes of a pod', { skip: needsRoot }, () => {
  let dir: string;
  const secrets = new Map([['default/creds', new Map([['userdata', Buffer.from('#!/bin/sh')]])]]);

  const claims = new Map<string, PersistentVolumeClaim>();
  const made = new Map<string, PersistentVolume>();

  beforeEach(async () => {
    claims.clear();
    made.clear();
    dir = await mkdtemp(path.join(tmpdir(), 'virt-volumes-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const loops = { attach: async () => '/dev/loop7' };
  const files = () =>
    new VolumeFiles({
      volumesDir: path.join(dir, 'claims'),
      snapshotsDir: path.join(dir, 'snapshots'),
      owner: { uid: 107, gid: 107 },
    });

  function prepare(
    volumes: PodVolume[],
    volumeMounts: VolumeMount[],
    securityContext?: Pod['spec']['securityContext'],
    labels: Record<string, string> = {},
  ) {
    const container = { name: 'compute', volumeMounts };
    const pod: Pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', namespace: 'default', uid: 'u', labels },
      spec: { containers: [container], volumes, ...(securityContext && { securityContext }) },
    };
    const objects: Pick<PodSource, 'readObject' | 'hostDisksOf' | 'claim' | 'volume'> = {
      readObject: async (_, namespace, name) => secrets.get(`${namespace}/${name}`),
      hostDisksOf: async () => new Map([['disk', { path: path.join(dir, 'open/a.img'), type: 'Disk' }]]),
      claim: async (namespace, name) => claims.get(`${namespace}/${name}`),
      volume: async (name) => made.get(name),
    };
    return prepareVolumes(pod, container, path.join(dir, 'pods/u'), {
      images: new ImageStore({ dir: path.join(dir, 'images') }),
      objects,
      claims: new ClaimDirectories({ files: files(), loops, onChange: () => () => undefined }, objects),
      hostDisks: new HostDisks({
        dirs: [path.join(dir, 'open')],
        ownersDir: path.join(dir, 'owners'),
        nodeDirs: [path.join(dir, 'state')],
      }),
    });
  }

  test('an emptyDir lies in kubelet’s place, open to the group of QEMU; parents are mounted before what is inside them', async () => {
    const mounts = await prepare(
      [
        { name: 'sockets', emptyDir: {} },
        { name: 'public', emptyDir: {} },
      ],
      [
        { name: 'sockets', mountPath: '/var/run/kubevirt/sockets' },
        { name: 'public', mountPath: '/var/run/kubevirt' },
      ],
    );
    assert.deepEqual(
      mounts.map(({ target }) => target),
      ['/run/kubevirt', '/run/kubevirt/sockets'],
    );
    const { mode, gid } = await stat(path.join(dir, 'pods/u/volumes/kubernetes.io~empty-dir/sockets'));
    assert.deepEqual([mode & 0o7777, gid], [0o2771, 107]);
  });

  test('an image is mounted read-only from the node’s directory; a missing one says where to put it', async () => {
    const volume = { name: 'disk', image: { reference: 'reg.io/a/b:1' } };
    const mount = { name: 'disk', mountPath: '/var/run/kubevirt-image-volume/disk_0' };
    await assert.rejects(prepare([volume], [mount]), {
      code: 'IMAGE_MISSING',
      message: /images\/reg\.io%2Fa%2Fb%3A1,/,
    });
    await mkdir(path.join(dir, 'images/reg.io%2Fa%2Fb%3A1'), { recursive: true });
    const [found] = await prepare([volume], [mount]);
    assert.deepEqual([found?.source, found?.readOnly], [path.join(dir, 'images/reg.io%2Fa%2Fb%3A1'), true]);
  });

  test('what changes in a secret is followed: new, changed and removed keys, with owner and mode; a secret that is gone stays', async () => {
    const volumes: PodVolume[] = [{ name: 'v', secret: { secretName: 'creds' } }];
    const container = { name: 'compute', volumeMounts: [{ name: 'v', mountPath: '/run/v' }] };
    const podDir = path.join(dir, 'pods/u');
    const pod: Pod = {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: 'default', uid: 'u' } },
      spec: { containers: [container], volumes, securityContext: { runAsUser: 107, fsGroup: 107 } },
    };
    let keys: Map<string, Buffer> | undefined;
    const refresh = (now: Record<string, string> | undefined) => {
      keys = now && new Map(Object.entries(now).map(([key, text]) => [key, Buffer.from(text)]));
      return refreshObjects(pod, podDir, { readObject: async () => keys });
    };
    const secretDir = path.dirname(secretFile('x'));
    await refresh({ same: '1', changed: '1', removed: '1' });
    const { ino } = await stat(secretFile('same'));
    await refresh({ same: '1', changed: '2', added: '1' });
    assert.deepEqual((await readdir(secretDir)).sort(), ['added', 'changed', 'same']);
    assert.equal(await readFile(secretFile('changed'), 'utf8'), '2');
    assert.equal((await stat(secretFile('same'))).ino, ino);
    assert.deepEqual(await rights(secretFile('added')), await rights(secretFile('same')));
    assert.match((await refresh(undefined)).join(), /^volume v: secret default\/creds does not exist/);
    assert.deepEqual((await readdir(secretDir)).sort(), ['added', 'changed', 'same']);
  });

  test('a secret that is gone, and one that cannot be written, keep no other from being followed, and each is told', async () => {
    const names = ['gone', 'blocked', 'v'];
    const volumeMounts = names.map((name) => ({ name, mountPath: `/run/${name}` }));
    const pod: Pod = {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: 'default', uid: 'u' } },
      spec: {
        containers: [{ name: 'compute', volumeMounts }],
        volumes: names.map((name) => ({ name, secret: { secretName: name } })),
      },
    };
    await mkdir(path.join(secretFile('..'), 'blocked/key/full'), { recursive: true });
    const keys = new Map([['key', Buffer.from('rotated')]]);
    const readObject = async (_kind: string, _namespace: string, name: string) => (name === 'gone' ? undefined : keys);
    const problems = await refreshObjects(pod, path.join(dir, 'pods/u'), { readObject });
    assert.equal(await readFile(secretFile('key'), 'utf8'), 'rotated');
    assert.match(problems.join('\n'), /^volume gone: secret default\/gone does not exist.*\nvolume blocked: ENOTEMPTY/);
  });

  test('a key that was missing while it was mounted alone is a file as soon as there is one', async () => {
    const secret: PodVolume = { name: 'v', secret: { secretName: 'late' } };
    const mount = { name: 'v', mountPath: '/run/v', subPath: 'userData' };
    const late = new Map([['other', Buffer.from('1')]]);
    secrets.set('default/late', late);
    assert.equal((await prepare([secret], [mount]))[0]?.type, 'directory');
    late.set('userData', Buffer.from('#cloud-config'));
    assert.equal((await prepare([secret], [mount]))[0]?.type, 'file');
    assert.equal(await readFile(secretFile('userData'), 'utf8'), '#cloud-config');
  });

  test('a Node.js whose directory entries have no `path` any more, as that of 24, gives the same files', async () => {
    Object.defineProperty(Dirent.prototype, 'path', { get: () => undefined, set: () => undefined, configurable: true });
    try {
      await prepare([{ name: 'v', secret: { secretName: 'creds' } }], [{ name: 'v', mountPath: '/run/v' }]);
    } finally {
      Reflect.deleteProperty(Dirent.prototype, 'path');
    }
    assert.deepEqual(await readdir(secretFile('.')), ['userdata']);
  });

  test('a secret’s keys are files; a sub-path of one key is a file mount, a missing one a directory', async () => {
    const mounts = await prepare(
      [{ name: 'init-udata', secret: { secretName: 'creds' } }],
      [
        { name: 'init-udata', mountPath: '/var/run/kubevirt-private/secret/init/userdata', subPath: 'userdata' },
        { name: 'init-udata', mountPath: '/var/run/kubevirt-private/secret/init/userData', subPath: 'userData' },
      ],
    );
    assert.deepEqual(
      mounts.map(({ type }) => type),
      ['file', 'directory'],
    );
    assert.equal(await readFile(mounts[0]?.source ?? '', 'utf8'), '#!/bin/sh');
  });

  const rights = async (file: string) => {
    const { mode, uid, gid } = await stat(file);
    return [(mode & 0o7777).toString(8), uid, gid];
  };
  const secretFile = (name: string) => path.join(dir, 'pods/u/volumes/kubernetes.io~secret/v', name);
  const readers: readonly [string, Pod['spec']['securityContext'], number | undefined, unknown[], unknown[]][] = [
    [
      'root’s pod, which QEMU’s group has no part in',
      { runAsUser: 0, fsGroup: 107 },
      undefined,
      ['400', 0, 0],
      ['700', 0, 0],
    ],
    ['a pod without a word about users', undefined, undefined, ['400', 0, 0], ['700', 0, 0]],
    ['a pod of user 107, by its group', { runAsUser: 107, fsGroup: 107 }, undefined, ['440', 0, 107], ['750', 0, 107]],
    ['a pod of user 107 without a group', { runAsUser: 107 }, undefined, ['400', 107, 0], ['700', 107, 0]],
    [
      'a pod whose volume wants more than it needs',
      { runAsUser: 107, fsGroup: 107 },
      0o777,
      ['550', 0, 107],
      ['750', 0, 107],
    ],
    [
      'a pod whose volume wants less than a kubelet gives',
      { runAsUser: 107, fsGroup: 107 },
      0,
      ['440', 0, 107],
      ['750', 0, 107],
    ],
  ];
  for (const [who, context, defaultMode, file, directory] of readers) {
    test(`a secret’s file is readable for ${who}, and nobody else`, async () => {
      const secret = { secretName: 'creds', ...(defaultMode !== undefined && { defaultMode }) };
      await prepare([{ name: 'v', secret }], [{ name: 'v', mountPath: '/run/v' }], context);
      assert.deepEqual(await rights(secretFile('userdata')), file);
      assert.deepEqual(await rights(secretFile('.')), directory);
    });
  }

  test('of a hostDisk’s directory the pod gets the one file', async () => {
    await mkdir(path.join(dir, 'open'));
    await writeFile(path.join(dir, 'open/a.img'), 'a');
    await writeFile(path.join(dir, 'open/of-another-vm.img'), 'b');
    const [found, ...others] = await prepare(
      [{ name: 'disk', hostPath: { path: path.join(dir, 'open'), type: 'Directory' } }],
      [{ name: 'disk', mountPath: '/var/run/kubevirt-private/vmi-disks/disk' }],
    );
    const target = '/run/kubevirt-private/vmi-disks/disk/a.img';
    const source = path.join(dir, 'open/a.img');
    const { dev, ino } = await stat(source, { bigint: true });
    assert.deepEqual(found, { source, target, readOnly: false, type: 'file', identity: `${dev}-${ino}` });
    assert.deepEqual(others, []);
  });

  const emptyDir = { name: 'v', emptyDir: {} };
  const run = { name: 'v', mountPath: '/run/v' };
  const pvc = (spec: Partial<PersistentVolumeClaim['spec']> = {}): PersistentVolumeClaim => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'c', namespace: 'default', uid: 'claim-uid' },
    spec: { resources: { requests: { storage: '1Mi' } }, ...spec },
  });
  const claimed = { name: 'v', persistentVolumeClaim: { claimName: 'c' } };
  const claimDir = () => path.join(dir, 'claims/default_c_claim-uid');

  /** As the node's storage leaves them. */
  async function bind(spec: Partial<PersistentVolumeClaim['spec']> = {}, phase = 'Bound'): Promise<void> {
    const claim = pvc({ volumeName: 'pvc-claim-uid', ...spec });
    claims.set('default/c', { ...claim, status: { phase } });
    made.set('pvc-claim-uid', {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'pvc-claim-uid' },
      spec: {
        csi: { driver, volumeHandle: 'default_c_claim-uid' },
        claimRef: { namespace: 'default', name: 'c', uid: 'claim-uid' },
      },
    });
    await files().sweep();
    const shape = { sizeBytes: 1024 * 1024, isBlock: spec.volumeMode === 'Block' };
    await files().create('default_c_claim-uid', shape, undefined, {
      signal: AbortSignal.timeout(10_000),
      requireUnused: async () => undefined,
    });
  }
  const attachment = { 'kubevirt.io': 'hotplug-disk' };

  test('a claim is the directory of its volume, with a disk of its size that is QEMU’s', async () => {
    await bind();
    const [mount] = await prepare([claimed], [run]);
    assert.deepEqual([mount?.source, mount?.readOnly], [claimDir(), false]);
    assert.deepEqual(await rights(claimDir()), ['770', 107, 107]);
    const image = path.join(claimDir(), 'disk.img');
    assert.deepEqual([(await stat(image)).size, await rights(image)], [1024 * 1024, ['600', 107, 107]]);
  });

  test('the disk of a claim that is plugged in is given to QEMU again, with what is in it', async () => {
    await bind();
    const image = path.join(claimDir(), 'disk.img');
    await writeFile(image, 'written');
    await chown(image, 0, 0);
    const [mount] = await prepare([claimed], [{ name: 'v', mountPath: '/v' }], undefined, attachment);
    assert.equal(mount?.target, '/v');
    assert.deepEqual([await readFile(image, 'utf8'), (await stat(image)).uid], ['written', 107]);
  });

  const state = { name: 'v', mountPath: '/var/lib/libvirt/swtpm', subPath: 'swtpm' };

  test('a directory of a claim is made once, where libvirt keeps TPMs, and nothing else is mounted in its place', async () => {
    await bind();
    const [mount] = await prepare([claimed], [state]);
    const source = path.join(claimDir(), 'swtpm');
    const { dev, ino } = await stat(source, { bigint: true });
    const target = '/var/lib/libvirt/swtpm';
    assert.deepEqual(mount, { source, target, readOnly: false, type: 'directory', identity: `${dev}-${ino}` });
    assert.deepEqual(await rights(source), ['2771', 0, 107]);
    await chown(source, 1234, 1234);
    assert.deepEqual(await prepare([claimed], [state]), [mount]);
    assert.equal((await stat(source)).uid, 1234);
  });

  test('records of changed blocks are mounted where the launcher looks for them, and nothing beside them', async () => {
    await bind();
    const target = '/var/lib/libvirt/qemu/cbt';
    const [mount] = await prepare([claimed], [{ name: 'v', mountPath: target, subPath: 'cbt' }]);
    assert.deepEqual([mount?.source, mount?.target, mount?.readOnly], [path.join(claimDir(), 'cbt'), target, false]);
    const beside = { name: 'v', mountPath: '/var/lib/libvirt/qemu/other', subPath: 'cbt' };
    await assert.rejects(prepare([claimed], [beside]), { code: 'UNSUPPORTED' });
  });

  test('a link that a pod left in the place of a claim’s directory is not followed, nor is a path into one', async () => {
    await bind();
    const victim = path.join(dir, 'victim');
    await mkdir(victim);
    await symlink(victim, path.join(claimDir(), 'swtpm'));
    await assert.rejects(prepare([claimed], [state]), { code: 'VOLUME_DAMAGED', message: /has no directory swtpm/ });
    assert.equal((await stat(victim)).gid, 0);
    await assert.rejects(prepare([claimed], [{ ...state, subPath: 'swtpm/x' }]), { code: 'POD_INVALID' });
    assert.deepEqual(await readdir(victim), []);
  });

  test('a link that a launcher left in the place of the disk is not followed', async () => {
    await bind();
    const victim = path.join(dir, 'victim');
    await writeFile(victim, 'of the machine');
    await rm(path.join(claimDir(), 'disk.img'));
    await symlink(victim, path.join(claimDir(), 'disk.img'));
    await assert.rejects(prepare([claimed], [run], undefined, attachment), { code: 'VOLUME_DAMAGED' });
    assert.equal((await stat(victim)).uid, 0);
  });

  for (const [title, prepareIt, code, message] of [
    ['not bound yet', () => bind({}, 'Pending'), 'CLAIM_NOT_READY', /is not bound yet; kubectl describe pvc/],
    ['lost', () => bind({}, 'Lost'), 'CLAIM_NOT_READY', /has lost its data/],
    [
      'of another driver’s volume',
      async () => {
        await bind({ volumeName: 'other' });
        const spec = { csi: { driver: 'example.org', volumeHandle: 'x' } };
        made.set('other', { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'other' }, spec });
      },
      'CLAIM_NOT_READY',
      /volume other.*not one of this node/,
    ],
    ['a block device that is mounted', () => bind({ volumeMode: 'Block' }), 'UNSUPPORTED', /is a block device/],
    [
      'without its data',
      async () => {
        await bind();
        await rm(path.join(claimDir(), 'disk.img'));
      },
      'CLAIM_NOT_READY',
      /its data is gone.*disk\.img.*put it back/,
    ],
  ] as const) {
    test(`a claim that is ${title} is refused in words`, async () => {
      await prepareIt();
      await assert.rejects(prepare([claimed], [run]), { code, message });
    });
  }

  for (const mountPath of ['/usr', '/etc', '/run', '/', '/dev', '/v/w', '/export-volumes/a/b', '/v/../usr']) {
    test(`nothing is mounted at ${mountPath}`, async () => {
      await bind();
      await assert.rejects(prepare([claimed], [{ name: 'v', mountPath }]), { code: 'UNSUPPORTED' });
    });
  }

  const refused: readonly [string, PodVolume, VolumeMount, string][] = [
    ['a mount outside /run', emptyDir, { name: 'v', mountPath: '/etc' }, 'UNSUPPORTED'],
    ['a mount that climbs out of /run', emptyDir, { name: 'v', mountPath: '/run/../etc' }, 'UNSUPPORTED'],
    ['a sub-path that climbs', emptyDir, { ...run, subPath: '../../x' }, 'POD_INVALID'],
    ['an absolute sub-path', emptyDir, { ...run, subPath: '/etc' }, 'POD_INVALID'],
    ['a volume name with a slash', { name: '../v', emptyDir: {} }, { ...run, name: '../v' }, 'POD_INVALID'],
    ['a mount of no volume', emptyDir, { name: 'other', mountPath: '/run/v' }, 'POD_INVALID'],
    ['an image reference that climbs', { name: 'v', image: { reference: '../x' } }, run, 'IMAGE_INVALID'],
    ['an empty image reference', { name: 'v', image: {} }, run, 'IMAGE_INVALID'],
    ['a claim that is not there', { name: 'v', persistentVolumeClaim: { claimName: 'c' } }, run, 'NOT_FOUND'],
    ['huge pages', { name: 'v', emptyDir: { medium: 'HugePages' } }, run, 'UNSUPPORTED'],
    ['a secret that is not there', { name: 'v', secret: { secretName: 'nope' } }, run, 'NOT_FOUND'],
    ['a host path that is no hostDisk of the VMI', { name: 'v', hostPath: { path: '/etc' } }, run, 'UNSUPPORTED'],
    [
      'a hostDisk that is not there',
      { name: 'disk', hostPath: { path: '/etc', type: 'Directory' } },
      { ...run, name: 'disk' },
      'HOST_DISK_REFUSED',
    ],
    [
      'a secret’s file that climbs',
      { name: 'v', secret: { secretName: 'creds', items: [{ key: 'userdata', path: '../../x' }] } },
      run,
      'POD_INVALID',
    ],
  ];
  for (const [title, volume, mount, code] of refused) {
    test(`${title} is refused as ${code}`, async () => {
      await assert.rejects(prepare([volume], [mount]), { code });
    });
  }
});
