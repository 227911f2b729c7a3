import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import { buildPlan } from '../../../../src/standalone/pod-runner/build-plan.ts';

const options = { podLogsDir: '/logs', programs: {}, env: {}, kvm: 'works' } as const;
const podOf = (...names: string[]) =>
  ({ metadata: { name: 'p' }, spec: { containers: names.map((name) => ({ name })) } }) as unknown as Pod;

test('a pod with side containers is refused before anything of it is prepared, with what to use instead', async () => {
  const plan = buildPlan(podOf('compute', 'virtiofs-share'), '/pods/p', () => '/log', options, {} as never);
  await assert.rejects(plan, {
    code: 'UNSUPPORTED',
    message:
      'the standalone node runs the container compute only, not virtiofs-share: use a disk instead of the file system',
  });
});

test('a pod that Multus would plug into networks is refused: there is none', async () => {
  for (const key of ['k8s.v1.cni.cncf.io/networks', 'v1.multus-cni.io/default-network']) {
    const pod = podOf('compute');
    pod.metadata.annotations = { [key]: '[{"name":"nowhere"}]' };
    await assert.rejects(
      buildPlan(pod, '/pods/p', () => '/log', options, {} as never),
      {
        code: 'UNSUPPORTED',
        message: /^spec\.networks\[\]\.multus: .*no Multus: use the network of its pods/,
      },
    );
  }
});

test('the program of an attachment pod is run without the shell that upstream puts before it', async () => {
  const programs = { '/usr/bin/container-disk': ['node', 'container-disk.js'] };
  const command = ['/bin/sh', '-c', '/usr/bin/container-disk --copy-path /path/hp'];
  const pod = podOf('hotplug-disk');
  const [container] = pod.spec.containers;
  Object.assign(container ?? {}, { command });
  const deps = { networks: { join: async () => undefined } };
  const podDir = await mkdtemp(path.join(tmpdir(), 'plan-'));
  try {
    const { argv } = await buildPlan(pod, podDir, () => '/log', { ...options, programs }, deps as never);
    assert.deepEqual(argv, ['node', 'container-disk.js', '--copy-path', '/path/hp']);
    Object.assign(container ?? {}, { command: ['/bin/sh', '-c', 'cat /etc/passwd'] });
    await assert.rejects(
      buildPlan(pod, podDir, () => '/log', { ...options, programs }, deps as never),
      {
        code: 'UNSUPPORTED',
        message: '"cat" is no program of this node; it runs /usr/bin/container-disk',
      },
    );
  } finally {
    await rm(podDir, { recursive: true });
  }
});

test('the log of the guest is shown by a program beside the launcher, with a log of its own; without the wish for it there is none', async () => {
  const programs = { '/usr/bin/launcher': ['node', 'launcher.js'], '/usr/bin/virt-tail': ['tail-it'] };
  const pod = podOf('compute');
  Object.assign(pod.spec.containers[0] ?? {}, { command: ['/usr/bin/launcher'] });
  const deps = { networks: { join: async () => undefined } };
  const podDir = await mkdtemp(path.join(tmpdir(), 'plan-'));
  const planned = () => buildPlan(pod, podDir, (name) => `/log/${name}`, { ...options, programs }, deps as never);
  try {
    assert.deepEqual([(await planned()).beside, (await planned()).logFile], [undefined, '/log/compute']);
    const tail = { command: ['/usr/bin/virt-tail'], args: ['--logfile', '/x'], restartPolicy: 'Always' } as const;
    pod.spec.initContainers = [
      { name: 'guest-console-log', ...tail, command: [...tail.command], args: [...tail.args] },
      { name: 'volumeroot', args: ['--no-op'] },
    ];
    const { beside } = await planned();
    assert.deepEqual(beside, [{ argv: ['tail-it', '--logfile', '/x'], logFile: '/log/guest-console-log' }]);
  } finally {
    await rm(podDir, { recursive: true });
  }
});
