import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { controllerToken, type EmbeddedApi, startEmbeddedApi, userToken } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type LauncherProcess, type LauncherProgram, launcherProgram } from '../../fixtures/launcher-process.ts';
import { scriptedDomain, socketFileOf } from '../../fixtures/scripted-launcher.ts';
import { AgentProgram, stopped } from './agent-process.ts';

/** The program virt-handler, the embedded API, and scripted launchers in processes and mount namespaces of their own. */

const program = new AgentProgram();
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
/** Where a launcher finds the pipe in its own mount namespace. */
const pipe = '/run/kubevirt/domain-notify-pipe.sock';

/** The agent's own account: writes of status by users are not taken. */
const handler = { token: userToken, user: 'system:serviceaccount:kubevirt:kubevirt-handler' };
const controller = { token: controllerToken, user: 'system:serviceaccount:kubevirt:kubevirt-controller' };

let api: EmbeddedApi;
let launchers: LauncherProgram;
let agent: ChildProcess;

before(async () => {
  [api, launchers] = await Promise.all([
    startEmbeddedApi({ tokens: [handler, controller] }),
    launcherProgram(),
    program.build(),
  ]);
  await api.client.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
  agent = program.start(api.kubeconfig);
});

after(async () => {
  if (process.env.AGENT_LOG) console.log(program.log());
  await program.dispose();
  await launchers?.dispose();
  await api?.stop();
});

interface Booted {
  readonly launcher: LauncherProcess;
  readonly uid: string;
}

async function create(name: string, more: object = {}): Promise<VirtualMachineInstance> {
  const { status, body } = await api.controller.post(vmis, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, labels: { 'kubevirt.io/nodeName': 'node1' } },
    spec: {
      terminationGracePeriodSeconds: 2,
      domain: { memory: { guest: '64Mi' }, devices: { disks: [{ name: 'data', disk: { bus: 'virtio' } }] } },
      volumes: [{ name: 'data', emptyDisk: { capacity: '1Mi' } }],
      fieldOfTomorrow: [1, { a: null }],
    },
    status: { phase: 'Scheduled', nodeName: 'node1', activePods: { [`pod-${name}`]: 'node1' } },
    ...more,
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

async function read(name: string): Promise<VirtualMachineInstance> {
  return (await api.client.get(`${vmis}/${name}`)).body;
}

async function waitForPhase(name: string, phase: string, timeoutMs?: number): Promise<void> {
  await eventually(async () => assert.equal((await read(name)).status?.phase, phase), timeoutMs);
}

async function reasons(name: string): Promise<string[]> {
  const { body } = await api.client.get('/api/v1/namespaces/default/events');
  const events: { involvedObject: { name: string }; reason: string }[] = body.items;
  return events.filter(({ involvedObject }) => involvedObject.name === name).map(({ reason }) => reason);
}

async function boot(name: string, more: object = {}): Promise<Booted> {
  const launcher = await launchers.start(socketFileOf(program.podsDir, `pod-${name}`), { ownRun: true });
  const uid = (await create(name, more)).metadata.uid ?? '';
  await eventually(async () => assert.ok((await reasons(name)).includes('Created')));
  await tell(launcher, name, uid, 'Running');
  await waitForPhase(name, 'Running');
  return { launcher, uid };
}

type Status = Parameters<typeof scriptedDomain>[2];
type Reason = Parameters<typeof scriptedDomain>[3];

async function tell(
  launcher: LauncherProcess,
  name: string,
  uid: string,
  status: Status,
  reason?: Reason,
): Promise<void> {
  const domain = scriptedDomain(`default/${name}`, uid, status, reason);
  await launcher.setDomain(domain);
  assert.deepEqual(await launcher.sendEvent(pipe, 'MODIFIED', domain), { success: true, message: '' });
}

/** What a launcher does after DeleteVirtualMachine. */
async function vanish(launcher: LauncherProcess, name: string, uid: string): Promise<void> {
  await eventually(() =>
    assert.match(program.log(), new RegExp(`"vmi":"default/${name}".*"rule":"finished-domain-stopped"`)),
  );
  await launcher.setDomain(undefined);
  const domain = scriptedDomain(`default/${name}`, uid, 'NoState', 'NonExistent');
  domain.ObjectMeta.deletionTimestamp = new Date().toISOString();
  assert.equal((await launcher.sendEvent(pipe, 'MODIFIED', domain)).success, true);
}

const ghosts = () => readdirSync(path.join(program.privateDir, 'ghost-records'));

test('a scheduled VMI becomes Running with two events, and unknown fields are kept', async () => {
  const { uid } = await boot('starts');
  const vmi = await read('starts');
  assert.deepEqual(vmi.spec.fieldOfTomorrow, [1, { a: null }]);
  assert.equal(vmi.metadata.uid, uid);
  await eventually(async () => assert.deepEqual((await reasons('starts')).sort(), ['Created', 'Started']));
  assert.ok(ghosts().includes(uid));
});

test('the node is marked schedulable with a heartbeat', async () => {
  await eventually(async () => {
    const { body } = await api.client.get('/api/v1/nodes/node1');
    assert.equal(body.metadata.labels['kubevirt.io/schedulable'], 'true');
    assert.match(body.metadata.annotations['kubevirt.io/heartbeat'], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });
});

test('pause and unpause of the guest come and go as a condition', async () => {
  const { launcher, uid } = await boot('pauses');
  const isPaused = async () =>
    (await read('pauses')).status?.conditions?.some(({ type }) => type === 'Paused') ?? false;
  await tell(launcher, 'pauses', uid, 'Paused', 'User');
  await eventually(async () => assert.equal(await isPaused(), true));
  await tell(launcher, 'pauses', uid, 'Running');
  await eventually(async () => assert.equal(await isPaused(), false));
});

test('a guest that shuts down ends as Succeeded, and its record goes', async () => {
  const { launcher, uid } = await boot('stops');
  await tell(launcher, 'stops', uid, 'Shutoff', 'Shutdown');
  await waitForPhase('stops', 'Succeeded');
  await vanish(launcher, 'stops', uid);
  await eventually(() => assert.ok(!ghosts().includes(uid)));
});

test('a launcher that lies about its UID is refused, and its VMI goes on', async () => {
  const { launcher, uid } = await boot('honest');
  const victim = await read('starts');
  const lies = [
    scriptedDomain('default/honest', 'another-uid', 'Shutoff', 'Crashed'),
    scriptedDomain('default/starts', victim.metadata.uid ?? '', 'Shutoff', 'Crashed'),
  ];
  for (const lie of lies) assert.equal((await launcher.sendEvent(pipe, 'MODIFIED', lie)).success, false);
  await tell(launcher, 'honest', uid, 'Paused', 'User');
  await eventually(async () =>
    assert.ok((await read('honest')).status?.conditions?.some(({ type }) => type === 'Paused')),
  );
  assert.equal((await read('starts')).status?.phase, 'Running');
});

test('a launcher that is killed makes its VMI Failed, and only its own', async () => {
  const { launcher } = await boot('dies');
  await launcher.kill();
  await waitForPhase('dies', 'Failed', 30_000);
  assert.equal((await read('starts')).status?.phase, 'Running');
});

test('a launcher that hangs delays nobody else, and its VMI is neither failed nor forgotten', async () => {
  const { launcher } = await boot('hangs');
  launcher.signal('SIGSTOP');
  await api.controller.patch(`${vmis}/hangs`, 'merge', { metadata: { annotations: { poke: 'it' } } });
  await boot('beside');
  assert.equal((await read('hangs')).status?.phase, 'Running');
  launcher.signal('SIGCONT');
});

test('a VMI that cannot be read gets one event and no write, and others start', async () => {
  const activePods = { 'pod-broken': 'node1' };
  const status = { phase: 'Scheduled', nodeName: 'node1', activePods, interfaces: 'none' };
  const created = await create('broken', { status });
  await boot('after-broken');
  await eventually(async () => assert.deepEqual(await reasons('broken'), ['SyncFailed']), 15_000);
  assert.equal((await read('broken')).metadata.resourceVersion, created.metadata.resourceVersion);
});

test('a storm of writes by others does not keep a VMI from Running', async () => {
  const launcher = await launchers.start(socketFileOf(program.podsDir, 'pod-storm'), { ownRun: true });
  const uid = (await create('storm')).metadata.uid ?? '';
  await eventually(async () => assert.ok((await reasons('storm')).includes('Created')));
  const storm = new AbortController();
  const blowing = blow(storm.signal);
  await tell(launcher, 'storm', uid, 'Running');
  await waitForPhase('storm', 'Running');
  storm.abort();
  await blowing;
});

async function blow(signal: AbortSignal): Promise<void> {
  for (let count = 0; !signal.aborted; count++) {
    await api.controller.patch(`${vmis}/storm`, 'merge', { metadata: { labels: { blown: String(count) } } });
  }
}

test('kill -9 of the agent changes nothing, and the next one takes over without a write', async () => {
  const { launcher, uid } = await boot('survives');
  const before = (await read('survives')).metadata.resourceVersion;
  assert.deepEqual(await stopped(agent, 'SIGKILL'), [null, 'SIGKILL']);
  agent = program.start(api.kubeconfig);
  const domain = scriptedDomain('default/survives', uid, 'Running');
  await eventually(async () => assert.equal((await launcher.sendEvent(pipe, 'MODIFIED', domain)).success, true));
  assert.equal((await read('survives')).metadata.resourceVersion, before);
  process.kill(launcher.pid, 0);
});

test('a VMI that was deleted while the agent was away is ended by its record', async () => {
  const { launcher, uid } = await boot('vanishes');
  await stopped(agent, 'SIGKILL');
  await api.controller.delete(`${vmis}/vanishes`);
  agent = program.start(api.kubeconfig);
  await launcher.setDomain(scriptedDomain('default/vanishes', uid, 'Shutoff', 'Shutdown'));
  await vanish(launcher, 'vanishes', uid);
  await eventually(() => assert.ok(!ghosts().includes(uid)));
});

test('a deleted VMI is signalled, and killed when its grace is over', async () => {
  const { launcher, uid } = await boot('lingers', {
    metadata: {
      name: 'lingers',
      labels: { 'kubevirt.io/nodeName': 'node1' },
      finalizers: ['kubevirt.io/foregroundDeleteVirtualMachine'],
    },
  });
  await api.client.delete(`${vmis}/lingers`);
  await eventually(async () => assert.ok((await reasons('lingers')).includes('ShuttingDown')));
  await eventually(() => assert.match(program.log(), /"vmi":"default\/lingers".*"rule":"grace-over"/));
  await tell(launcher, 'lingers', uid, 'Shutoff', 'Destroyed');
  await waitForPhase('lingers', 'Succeeded');
});

test('idle, the program needs less than 100 MB and starts within a second', async () => {
  const rssKiB = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${agent.pid}/status`, 'utf8'))?.[1]);
  const startUps = [...program.log().matchAll(/"startUpMs":(\d+)/g)].map(([, ms]) => Number(ms));
  console.log(`# RSS ${Math.round(rssKiB / 1024)} MB with the VMIs of this file, start-up ${startUps.join(', ')} ms`);
  assert.ok(rssKiB > 0 && rssKiB < 150 * 1024, `${rssKiB} KiB`);
});

test('SIGTERM marks the node, leaves the VMs and exits with 0', async () => {
  assert.deepEqual(await stopped(agent, 'SIGTERM'), [0, null]);
  const { body } = await api.client.get('/api/v1/nodes/node1');
  assert.equal(body.metadata.labels['kubevirt.io/schedulable'], 'false');
  assert.equal((await read('survives')).status?.phase, 'Running');
});

test('an unknown flag prints the usage and exits with 2; so do names that differ and a missing address', async () => {
  const wrong = [
    ['--no-such-flag'],
    ['--pod-ip-address', '127.0.0.1', '--hostname-override', 'node2'],
    ['--hostname-override', 'node1'],
  ];
  for (const args of wrong) {
    const child = program.spawn(args);
    const [code] = await new Promise<[number | null]>((resolve) => child.once('exit', (status) => resolve([status])));
    assert.equal(code, 2, args.join(' '));
  }
  for (const text of [
    /unknown flag: --no-such-flag/,
    /Usage of virt-handler/,
    /must name this node/,
    /--pod-ip-address is missing/,
  ]) {
    assert.match(program.log(), text);
  }
});
