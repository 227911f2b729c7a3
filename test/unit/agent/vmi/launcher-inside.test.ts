import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostHook } from '../../../../src/agent/index.ts';
import type { HostFacts } from '../../../../src/api/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { prepared } from '../../../fixtures/agent/host-hooks.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startLoop } from './agent-loop.ts';

const label = 'system_u:object_r:container_file_t:s0:c1,c2';

/** Host facts that count what is read; `none` is SELinux switched off. */
function hostWith(reads: string[], more: Partial<HostFacts> = {}): Partial<HostFacts> {
  return {
    selinuxContext: (pid) => {
      if (pid === undefined) return '';
      reads.push('label');
      return label;
    },
    fileSizes: (_pid, paths) => {
      reads.push('sizes');
      return Object.fromEntries(paths.map((path) => [path, 7]));
    },
    ...more,
  };
}

const cloudInit = () => {
  const volumes = [{ name: 'cloud', cloudInitNoCloud: { userData: '' } }];
  const spec = { domain: { devices: { disks: [{ name: 'cloud', cdrom: {} }] } }, volumes };
  return vmiOf('Scheduled', { spec, status: { volumeStatus: [{ name: 'cloud', target: '' }] } });
};

test('label and image sizes travel with the phase Running, and are read once however often the guest changes', async (t) => {
  const reads: string[] = [];
  const loop = await startLoop(t, ({ ports }) => Object.assign(ports.host, hostWith(reads)));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(cloudInit());
  await settle();
  const [first] = loop.api.puts;
  assert.equal(loop.api.puts.length, 1);
  assert.equal(first?.status?.phase, 'Running');
  assert.equal(first?.status?.selinuxContext, label);
  assert.equal(first?.status?.volumeStatus?.[0]?.size, 7);
  loop.launchers.become(launcher, domainOf('Paused', 'User'));
  await settle();
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  assert.deepEqual(reads, ['sizes', 'label']);
});

test('a label that cannot be read leaves the one that is written', async (t) => {
  const reads: string[] = [];
  const loop = await startLoop(t, ({ ports }) =>
    Object.assign(ports.host, hostWith(reads, { selinuxContext: () => '' })),
  );
  loop.launchers.run(key, uid);
  const vmi = cloudInit();
  vmi.status = { ...vmi.status, selinuxContext: label };
  loop.api.apply(vmi);
  await settle();
  assert.equal(loop.api.stored(key)?.status?.selinuxContext, label);
});

test('a volume that is mounted in the launcher is shown as such, while one on which its hook throws is not', async (t) => {
  let fails = false;
  const hook: HostHook = {
    name: 'hot-plug',
    prepare: async () => prepared,
    observe: async ({ vmi }) => {
      if (fails) throw new Error('no such process');
      const plugged = vmi.status?.volumeStatus?.filter(({ hotplugVolume }) => hotplugVolume) ?? [];
      return { mountedVolumes: plugged.map(({ name }) => name) };
    },
  };
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(hook));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  const plug = (name: string) =>
    loop.api.change(key, (vmi) => {
      vmi.spec.volumes = [...(vmi.spec.volumes ?? []), { name, persistentVolumeClaim: { claimName: name } }];
      const volumes = vmi.status?.volumeStatus ?? [];
      vmi.status = {
        ...vmi.status,
        volumeStatus: [...volumes, { name, target: '', phase: 'Bound', hotplugVolume: {} }],
      };
    });
  plug('one');
  await settle();
  const phases = () => loop.api.stored(key)?.status?.volumeStatus?.map(({ name, phase }) => [name, phase]);
  assert.deepEqual(phases(), [['one', 'MountedToPod']]);
  assert.ok(loop.reasons().includes('VolumeMountedToPod'));
  fails = true;
  plug('two');
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  assert.deepEqual(phases(), [
    ['one', 'MountedToPod'],
    ['two', 'Bound'],
  ]);
});
