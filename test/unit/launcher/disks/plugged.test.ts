import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { findPluggedDisks } from '../../../../src/launcher/disks/index.ts';
import { vmiWith } from '../domain/cases.ts';
import { sandbox } from './sandbox.ts';

const dir = 'var/run/kubevirt/hotplug-disks';

function vmiOf(...names: readonly string[]) {
  const vmi = vmiWith(
    { devices: { disks: names.map((name) => ({ name, disk: { bus: 'scsi' } })) } },
    { volumes: names.map((name) => ({ name, persistentVolumeClaim: { claimName: name, hotpluggable: true } })) },
  );
  const volumeStatus = names.map((name) => ({ name, target: '', phase: 'MountedToPod', hotplugVolume: {} }));
  return { ...vmi, status: { volumeStatus } };
}

test('only an ordinary file or a block device is a plugged disk: links, pipes, directories and gaps are waited for', async (t) => {
  const { root, env, put } = sandbox(t);
  put(`${dir}/file.img`, 'content');
  const at = (name: string) => path.join(root, dir, name);
  symlinkSync('/etc/passwd', at('link.img'));
  execFileSync('mkfifo', [at('pipe.img'), at('pipe')]);
  mkdirSync(at('directory.img'));
  mkdirSync(at('directory'));
  const names = ['file', 'link', 'pipe', 'directory', 'missing'];
  const found = await findPluggedDisks(vmiOf(...names), names, env);
  assert.deepEqual([...found.keys()], ['file']);
  assert.equal(found.get('file')?.path, at('file.img'));
});

test('only the volumes that are asked for are looked at', async (t) => {
  const { env, put } = sandbox(t);
  put(`${dir}/one.img`);
  put(`${dir}/two.img`);
  const found = await findPluggedDisks(vmiOf('one', 'two'), ['two'], env);
  assert.deepEqual([...found.keys()], ['two']);
});
