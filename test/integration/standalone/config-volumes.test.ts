import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { renderLauncherPod } from '../../../src/controller/index.ts';
import {
  ClaimDirectories,
  HostDisks,
  ImageStore,
  LoopDevices,
  Sandboxes,
  VolumeFiles,
} from '../../../src/standalone/index.ts';
import { buildPlan } from '../../../src/standalone/pod-runner/build-plan.ts';
import type { PodSource } from '../../../src/standalone/pod-runner/ports.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { buildConfig } from '../../unit/controller/builders.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'sandboxes mount: this test needs root';
const launcherFiles = '/var/run/kubevirt-private';

/** From the VMI by virt-controller's pod to what the launcher finds in it: the launcher reads these paths (`pkg/config`, `pkg/cloud-init`). */
describe('files of secrets and config maps in the pod of a VMI', { skip: needsRoot }, () => {
  let dir: string;
  let sandboxes: Sandboxes;

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-config-'));
    const [podsDir, libvirtCacheDir] = [path.join(dir, 'pods'), path.join(dir, 'cache')];
    sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot: undefined, programs: [] });
  });
  after(async () => {
    for (const uid of await sandboxes.list()) {
      await sandboxes.kill(uid);
      await eventually(() => sandboxes.remove(uid));
    }
    await rm(dir, { recursive: true, force: true });
  });

  const objects: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'secret default/keys': { 'id-1': 'ssh-ed25519 one', 'id-2': 'ssh-ed25519 two' },
    'secret default/passwords': { root: 'secret-word' },
    'secret default/answers': { 'autounattend.xml': '<of-a-secret/>' },
    'configMap default/answers': { 'Unattend.xml': '<of-a-map/>' },
  };

  /** Of the launcher's private directory, as the pod's program sees it: names and contents. Read as root without the right to look past modes, as libvirt is. */
  async function seenBy(uid: string, spec: Partial<VirtualMachineInstance['spec']>): Promise<Record<string, string>> {
    const vmi: VirtualMachineInstance = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'vm', namespace: 'default', uid },
      spec: { domain: { memory: { guest: '64Mi' }, devices: {} }, ...spec },
      status: {},
    };
    const made = renderLauncherPod(vmi, buildConfig(), 'salt');
    const pod = { ...made, metadata: { ...made.metadata, uid } };
    const source: Pick<PodSource, 'readObject' | 'hostDisksOf' | 'claim' | 'volume'> = {
      readObject: async (kind, namespace, name) => {
        const data = objects[`${kind} ${namespace}/${name}`];
        return data && new Map(Object.entries(data).map(([key, value]) => [key, Buffer.from(value)]));
      },
      hostDisksOf: async () => new Map(),
      claim: async () => undefined,
      volume: async () => undefined,
    };
    const options = {
      podLogsDir: dir,
      programs: { '/usr/bin/virt-launcher-monitor': ['true'], '/usr/bin/virt-tail': ['true'] },
      env: {},
      kvm: 'fails',
    } as const;
    const logFile = path.join(dir, 'logs', uid);
    const images = new ImageStore({ dir: path.join(dir, 'images') });
    const volumes = { volumesDir: path.join(dir, 'claims'), snapshotsDir: path.join(dir, 'snapshots') };
    const files = new VolumeFiles({ ...volumes, owner: { uid: 0, gid: 0 } });
    const parts = { files, loops: new LoopDevices(), onChange: () => () => undefined };
    const claims = new ClaimDirectories(parts, source);
    const hostDisks = new HostDisks({ dirs: [], ownersDir: path.join(dir, 'owners'), nodeDirs: [] });
    await mkdir(path.dirname(logFile), { recursive: true });
    const plan = await buildPlan(pod, sandboxes.podDir(uid), () => logFile, options, {
      ...{ images, objects: source, claims, hostDisks },
      networks: { join: async () => undefined },
    });
    const script = `cd ${launcherFiles} && find -L . -type f ! -path '*/..*' | sort | while read -r file; do printf '%s=' "$file"; cat "$file"; echo; done`;
    await sandboxes.start({ ...plan, argv: ['/bin/sh', '-c', script] });
    await eventually(async () => assert.equal((await sandboxes.inspect(uid)).kind, 'exited'));
    const lines = (await readFile(logFile, 'utf8')).trim().split('\n').filter(Boolean);
    return Object.fromEntries(lines.map((line) => line.split(/=(.*)/s).slice(0, 2)));
  }

  test('accessCredentials: keys and passwords are where the launcher looks, each secret once', async () => {
    const keys = { secret: { secretName: 'keys' } };
    const seen = await seenBy('credentials', {
      accessCredentials: [
        { sshPublicKey: { source: keys, propagationMethod: { noCloud: {} } } },
        { sshPublicKey: { source: keys, propagationMethod: { qemuGuestAgent: { users: ['root'] } } } },
        {
          userPassword: { source: { secret: { secretName: 'passwords' } }, propagationMethod: { qemuGuestAgent: {} } },
        },
      ],
    });
    assert.deepEqual(seen, {
      './secret/keys-access-cred/id-1': 'ssh-ed25519 one',
      './secret/keys-access-cred/id-2': 'ssh-ed25519 two',
      './secret/passwords-access-cred/root': 'secret-word',
    });
  });

  for (const [what, sysprep, file] of [
    ['a secret', { secret: { name: 'answers' } }, { './sysprep/answers-disk/autounattend.xml': '<of-a-secret/>' }],
    ['a config map', { configMap: { name: 'answers' } }, { './sysprep/answers-disk/Unattend.xml': '<of-a-map/>' }],
  ] as const) {
    test(`sysprep of ${what}: its answers are where the launcher makes the CD from`, async () => {
      const devices = { disks: [{ name: 'answers-disk', cdrom: { bus: 'sata' as const } }] };
      const seen = await seenBy(`sysprep-${what.replaceAll(' ', '-')}`, {
        domain: { memory: { guest: '64Mi' }, devices },
        volumes: [{ name: 'answers-disk', sysprep }],
      });
      assert.deepEqual(seen, file);
    });
  }

  test('a secret that is not there is said, with what to do', async () => {
    const source = { secret: { secretName: 'nowhere' } };
    const spec = { accessCredentials: [{ sshPublicKey: { source, propagationMethod: { noCloud: {} } } }] };
    await assert.rejects(seenBy('missing', spec), { code: 'NOT_FOUND', message: /secret.*nowhere/ });
  });
});
