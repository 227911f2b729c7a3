import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { execInGuest } from '../../../../src/launcher/guest-agent/exec.ts';
import { filesystemFacts, systemFacts, userFacts, versionFacts } from '../../../../src/launcher/guest-agent/facts.ts';
import { GuestFreezer } from '../../../../src/launcher/guest-agent/freeze.ts';
import { GuestAccess } from '../../../../src/launcher/guest-agent/guest-access.ts';
import { GuestPoller } from '../../../../src/launcher/guest-agent/poller.ts';
import { GuestStore, guestAgentInfo } from '../../../../src/launcher/guest-agent/store.ts';
import type { LauncherEvent } from '../../../../src/launcher/ports.ts';
import type { DomainRef } from '../../../../src/libvirt/index.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

let hypervisor: MemoryHypervisor;
let clock: FakeClock;
let domain: DomainRef;

beforeEach(async () => {
  hypervisor = new MemoryHypervisor();
  clock = new FakeClock();
  domain = await hypervisor.define('<domain><name>default_small</name></domain>');
  await hypervisor.start(domain, { paused: false });
  hypervisor.calls.length = 0;
});

describe('facts from libvirt and the agent', () => {
  test('interfaces: lo is skipped, the first IPv4 address is the primary one, order is kept', () => {
    const params = new Map<string, string | number>([
      ['if.count', 2],
      ['if.0.name', 'lo'],
      ['if.1.name', 'eth0'],
      ['if.1.hwaddr', '52:54:00:00:00:01'],
      ['if.1.addr.count', 2],
      ['if.1.addr.0.type', 'ipv6'],
      ['if.1.addr.0.addr', 'fe80::1'],
      ['if.1.addr.1.type', 'ipv4'],
      ['if.1.addr.1.addr', '10.0.2.2'],
      ['os.name', 'Debian'],
      ['os.pretty-name', 'Debian 12'],
      ['hostname', 'guest'],
      ['timezone.name', 'UTC'],
      ['timezone.offset', 0],
    ]);
    const facts = systemFacts(params);
    assert.deepEqual(facts.interfaces, [
      { Mac: '52:54:00:00:00:01', Ip: '10.0.2.2', IPs: ['fe80::1', '10.0.2.2'], InterfaceName: 'eth0' },
    ]);
    assert.deepEqual([facts.osInfo.Name, facts.osInfo.PrettyName], ['Debian', 'Debian 12']);
    assert.deepEqual([facts.hostname, facts.timezone], ['guest', 'UTC, 0']);
  });

  test('users: login time in milliseconds becomes seconds', () => {
    const params = new Map<string, string | number | bigint>([
      ['user.count', 1],
      ['user.0.name', 'root'],
      ['user.0.login-time', 1_600_000_000_500n],
    ]);
    assert.deepEqual(userFacts(params).users, [{ userName: 'root', domain: '', loginTime: 1_600_000_000.5 }]);
  });

  test('answers of another shape give empty facts, and lists are cut', () => {
    for (const answer of [null, 'text', 7, [], {}, [null]]) {
      assert.equal(versionFacts(answer).agentVersion, '');
      assert.ok(filesystemFacts(answer).filesystems.length <= 1);
    }
    assert.equal(filesystemFacts(Array.from({ length: 9999 }, () => ({ name: 'x' }))).filesystems.length, 256);
    assert.equal(systemFacts(new Map([['if.count', 1_000_000]])).interfaces?.length, 256);
  });

  test('guest info has the keys of the API and cuts its lists at ten', () => {
    const store = new GuestStore();
    store.update({ users: Array.from({ length: 20 }, () => ({ userName: 'u', domain: '', loginTime: 1 })) });
    const info = JSON.parse(JSON.stringify(guestAgentInfo(store.facts)));
    assert.equal(info.userList.length, 10);
    assert.deepEqual(Object.keys(info), [
      ...[
        'guestAgentVersion',
        'supportedCommands',
        'hostname',
        'os',
        'timezone',
        'userList',
        'fsInfo',
        'fsFreezeStatus',
      ],
    ]);
  });
});

describe('running a program in the guest', () => {
  const request = { command: '/bin/echo', args: ['a "quoted" one'], timeoutSeconds: 1 };

  test('gives exit code and output, with arguments as they are', async () => {
    let started: unknown;
    hypervisor.agentAnswers = ({ execute, arguments: args }) => {
      if (execute === 'guest-exec') started = args;
      return execute === 'guest-exec' ? { pid: 7 } : { exited: true, exitcode: 3, 'out-data': btoa('out') };
    };
    assert.deepEqual(await execInGuest(hypervisor, domain, request, clock), { exitCode: 3, stdout: 'out' });
    assert.deepEqual(started, { path: '/bin/echo', arg: ['a "quoted" one'], 'capture-output': true });
  });

  test('fails after its time limit', async () => {
    hypervisor.agentAnswers = ({ execute }) => (execute === 'guest-exec' ? { pid: 7 } : { exited: false });
    const run = execInGuest(hypervisor, domain, request, clock);
    const failed = assert.rejects(run, { code: 'AGENT_FAILED', message: /still running in the guest after 1 s/ });
    for (let tick = 0; tick < 12; tick++) await clock.pass(100);
    await failed;
  });

  test('fails without a process id, and without a command', async () => {
    hypervisor.agentAnswers = () => ({});
    await assert.rejects(execInGuest(hypervisor, domain, request, clock), { code: 'AGENT_FAILED' });
    const none = { ...request, command: '' };
    await assert.rejects(execInGuest(hypervisor, domain, none, clock), { code: 'INVALID_REQUEST' });
  });
});

describe('freezing', () => {
  test('a frozen guest is unfrozen by itself when no caller does it in time', async () => {
    let status = 'thawed';
    hypervisor.agentAnswers = () => status;
    const freezer = new GuestFreezer({ hypervisor, log: silentLogger, clock });
    await freezer.freeze(domain, 10);
    status = 'frozen';
    await freezer.freeze(domain, 20);
    assert.equal(hypervisor.calls.filter((call) => call === 'freeze').length, 1, 'frozen already');
    clock.advance(19_000);
    assert.ok(!hypervisor.calls.includes('unfreeze'), 'the second freeze set a new limit');
    clock.advance(2000);
    await eventually(() => assert.ok(hypervisor.calls.includes('unfreeze')));
  });

  test('unfreeze cancels the limit, and does nothing on a guest that is not frozen', async () => {
    let status = 'thawed';
    hypervisor.agentAnswers = () => status;
    const freezer = new GuestFreezer({ hypervisor, log: silentLogger, clock });
    await freezer.freeze(domain, 10);
    status = 'frozen';
    await freezer.unfreeze(domain);
    status = 'thawed';
    await freezer.unfreeze(domain);
    assert.equal(clock.timers, 0);
    assert.equal(hypervisor.calls.filter((call) => call === 'unfreeze').length, 1);
  });
});

describe('guest ping', () => {
  const events: LauncherEvent[] = [];
  let access: GuestAccess;

  beforeEach(() => {
    events.length = 0;
    const freezer = new GuestFreezer({ hypervisor, log: silentLogger, clock });
    const identity = { namespace: 'default', name: 'small', uid: 'u' };
    const options = { identity, domainName: 'default_small', swtpmDir: '/nonexistent/swtpm' };
    access = new GuestAccess(options, { hypervisor, freezer, notifier: { sendEvent: (event) => events.push(event) } });
  });

  test('a silent agent of a running guest is an error and an event', async () => {
    await assert.rejects(access.ping('default_small', 1), { code: 'AGENT_UNRESPONSIVE' });
    assert.deepEqual(events, [
      { reason: 'GuestAgentPingFailed', type: 'Warning', message: 'GuestAgentPing probe failed for VMI small' },
    ]);
  });

  test('a paused guest, a guest that is gone, and probes that are switched off are excused', async () => {
    await hypervisor.suspend(domain);
    await access.ping('default_small', 1);
    hypervisor.domains.clear();
    await access.ping('default_small', 1);
    const vmi = launcherVmi();
    vmi.metadata.annotations = { 'kubevirt.io/pause-guest-agent-probes': 'true' };
    access.noteVmi(vmi);
    await access.ping('default_small', 1);
    assert.deepEqual(events, []);
    await assert.rejects(access.ping('default_other', 1), { code: 'WRONG_VMI' });
  });
});

describe('the poller', () => {
  const intervals = {
    qemuAgentSysIntervalMs: 120_000,
    qemuAgentFileIntervalMs: 300_000,
    qemuAgentUserIntervalMs: 10_000,
    qemuAgentVersionIntervalMs: 300_000,
    qemuFsfreezeStatusIntervalMs: 5_000,
  };
  let store: GuestStore;
  let poller: GuestPoller;

  beforeEach(() => {
    store = new GuestStore();
    poller = new GuestPoller(
      { intervals, domainName: 'default_small' },
      { hypervisor, store, log: silentLogger, clock },
    );
    hypervisor.agentAnswers = ({ execute }) => (execute === 'guest-fsfreeze-status' ? 'thawed' : {});
    hypervisor.guestParams = new Map([['os.name', 'Debian']]);
  });

  test('asks everything when the agent connects, and reports a change once', async () => {
    let changes = 0;
    store.onChange(() => changes++);
    poller.agentChanged(true);
    await clock.pass(0);
    assert.equal(store.facts.osInfo.Name, 'Debian');
    assert.equal(store.facts.fsFreezeStatus, 'thawed');
    const first = changes;
    await clock.pass(5_000);
    assert.equal(changes, first);
    assert.equal(hypervisor.calls.filter((call) => call === 'guest-fsfreeze-status').length, 2);
    poller.stop();
    assert.equal(clock.timers, 0);
  });

  test('rests while the guest is paused or the agent away, and keeps what it knows', async () => {
    poller.agentChanged(true);
    await clock.pass(0);
    poller.guestSuspended();
    assert.equal(poller.isRunning, false);
    poller.guestResumed();
    assert.equal(poller.isRunning, true);
    poller.agentChanged(false);
    poller.guestResumed();
    assert.equal(poller.isRunning, false);
    assert.equal(store.facts.osInfo.Name, 'Debian');
  });

  test('an agent that fails is asked again at the next tick', async () => {
    const answers = hypervisor.agentAnswers;
    hypervisor.agentAnswers = () => {
      throw new Error('no');
    };
    poller.agentChanged(true);
    await clock.pass(0);
    assert.equal(store.facts.fsFreezeStatus, '');
    hypervisor.agentAnswers = answers;
    await clock.pass(5_000);
    assert.equal(store.facts.fsFreezeStatus, 'thawed');
    poller.stop();
  });
});

describe('freezing a guest whose TPM is kept', () => {
  const tpm = launcherVmi({ spec: { domain: { devices: { tpm: { persistent: true } } } } });
  const accessWith = (swtpmDir: string) => {
    const identity = { namespace: 'default', name: 'small', uid: 'u' };
    const freezer = new GuestFreezer({ hypervisor, log: silentLogger, clock });
    const notifier = { sendEvent: () => undefined };
    hypervisor.agentAnswers = () => 'thawed';
    return new GuestAccess({ identity, domainName: 'default_small', swtpmDir }, { hypervisor, freezer, notifier });
  };

  test('what swtpm wrote is on the disk before the guest stands still, and where it cannot be, the guest is not frozen', async () => {
    const dir = await mkdtemp(path.join(tmpdir(), 'virt-swtpm-'));
    await mkdir(path.join(dir, 'uuid/tpm2'), { recursive: true });
    await writeFile(path.join(dir, 'uuid/tpm2/tpm2-00.permall'), 'state');
    await accessWith(dir).freeze(tpm, 0);
    assert.ok(hypervisor.calls.includes('freeze'));
    hypervisor.calls.length = 0;
    await rm(dir, { recursive: true });
    await assert.rejects(accessWith(dir).freeze(tpm, 0), { code: 'ENOENT' });
    assert.ok(!hypervisor.calls.includes('freeze'));
    await accessWith(dir).freeze(launcherVmi(), 0);
    assert.ok(hypervisor.calls.includes('freeze'));
  });
});
