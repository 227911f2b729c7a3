import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { hasStatus, isGone } from '../../fixtures/launcher-bench.ts';
import { launcherVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import {
  command,
  currentDomain,
  currentState,
  type LauncherSubject,
  type StartSubject,
  socketFileStays,
  type VmiCallName,
  versionsOf,
  vmi,
} from './subject.ts';

/** An emulated QEMU on a busy machine takes its time. */
const eventMs = 20_000;
const ok = { success: true, message: '' };
const unknownDomain = { success: false, message: 'Domain not found.' };
const noMigration = { success: false, message: 'cannot migrate VMI until migrationState is ready' };

/** What an agent may rely on, the same for every launcher. */
export function launcherCases(name: string, start: StartSubject): void {
  withSubject(`${name}, before a sync`, start, beforeSync);
  withSubject(`${name}, from a sync to the end`, start, life);
  withSubject(`${name}, of a domain that is deleted while it runs`, start, deletedEarly);
  withSubject(`${name}, of a guest that starts paused`, start, startsPaused);
}

/** For launchers whose guest can power off by itself. */
export function ownEndCases(name: string, start: StartSubject): void {
  withSubject(`${name}, of a guest that powers off`, start, ownEnd);
}

function withSubject(name: string, start: StartSubject, cases: (subject: () => LauncherSubject) => void): void {
  describe(name, () => {
    let subject: LauncherSubject;
    before(async () => {
      subject = await start();
    });
    after(() => subject?.close());
    cases(() => subject);
  });
}

function beforeSync(subject: () => LauncherSubject): void {
  test('it answers Info with its versions, and Ping', async () => {
    assert.deepEqual(await versionsOf(subject()), [1]);
    const { cmd } = subject();
    assert.deepEqual(await cmd.call(cmd.client.ping, {}), ok);
  });

  test('there is no domain, and the calls that need one say so', async () => {
    assert.equal(await currentState(subject()), 'none');
    const needsDomain: readonly VmiCallName[] = [
      'pauseVirtualMachine',
      'unpauseVirtualMachine',
      'resetVirtualMachine',
      'softRebootVirtualMachine',
      'unfreezeVirtualMachine',
      'syncVirtualMachineCpUs',
    ];
    for (const call of needsDomain) assert.deepEqual(await command(subject(), call), unknownDomain, call);
    const { cmd } = subject();
    const freeze = { ...vmiRequest(vmi), unfreezeTimeoutSeconds: 0 };
    assert.deepEqual(await cmd.call(cmd.client.freezeVirtualMachine, freeze), unknownDomain);
    const { response } = await cmd.call(cmd.client.getScreenshot, vmiRequest(vmi));
    assert.deepEqual(response, unknownDomain);
  });

  test('shutdown, kill and delete have nothing to do', async () => {
    for (const call of ['shutdownVirtualMachine', 'killVirtualMachine', 'deleteVirtualMachine'] as const) {
      assert.deepEqual(await command(subject(), call), ok, call);
    }
  });

  test('there are no statistics, and an agent in the guest was never heard of', async () => {
    const { cmd } = subject();
    const stats = await cmd.call(cmd.client.getDomainStats, {});
    assert.deepEqual([stats.response, stats.domainStats], [{ success: false, message: 'empty DomainStats' }, '']);
    const info = await cmd.call(cmd.client.getGuestInfo, {});
    assert.equal(info.response?.success, true);
    const { guestAgentVersion, supportedCommands, userList } = JSON.parse(info.guestInfoResponse);
    assert.deepEqual([guestAgentVersion, supportedCommands, userList], ['', [], []]);
    assert.equal((await cmd.call(cmd.client.getUsers, {})).guestUserListResponse, '[]');
    assert.equal((await cmd.call(cmd.client.getFilesystems, {})).guestFilesystemsResponse, '[]');
  });

  test('the VMI of another launcher, and a request without one, are refused', async () => {
    const other = { ...vmi, metadata: { ...vmi.metadata, uid: 'another-uid' } };
    const { cmd } = subject();
    for (const answer of [await cmd.sync(other), await command(subject(), 'killVirtualMachine', other)]) {
      assert.deepEqual(answer, {
        success: false,
        message: `this launcher serves uid ${launcherVmiUid}, not another-uid`,
      });
    }
    const empty = await cmd.call(cmd.client.killVirtualMachine, { vmi: undefined, options: undefined });
    assert.deepEqual(empty, { success: false, message: 'the request carries no usable VMI: it is empty' });
  });

  test('a VMI that runs elsewhere or has ended is not started', async () => {
    for (const phase of ['Running', 'Succeeded', 'Failed']) {
      assert.deepEqual(await subject().cmd.sync(launcherVmi({ phase })), ok, phase);
      assert.equal(await currentState(subject()), 'none', phase);
    }
  });

  test('nothing of that was worth an event', () => assert.deepEqual(subject().agent.events, []));
}

function life(subject: () => LauncherSubject): void {
  test('a sync starts the guest: the first event adds the domain, a later one shows it running', async () => {
    assert.deepEqual(await subject().cmd.sync(vmi), ok);
    const { domain } = await subject().agent.waitFor(hasStatus('Running'), eventMs);
    assert.equal(subject().agent.events[0]?.type, 'ADDED');
    const { ObjectMeta, Spec } = domain;
    assert.deepEqual([ObjectMeta.namespace, ObjectMeta.name, ObjectMeta.uid], ['default', 'small', launcherVmiUid]);
    assert.deepEqual([Spec.Name, Spec.Metadata.KubeVirt.UID], ['default_small', launcherVmiUid]);
    assert.equal(Spec.Metadata.KubeVirt.GracePeriod?.DeletionGracePeriodSeconds, 3);
    assert.equal(Spec.Metadata.KubeVirt.GracePeriod?.DeletionTimestamp, null);
  });

  test('GetDomain shows it, with its UID in the metadata only', async () => {
    const domain = await currentDomain(subject());
    assert.equal(domain?.Status.Status, 'Running');
    assert.deepEqual([domain?.kind, domain?.apiVersion], ['Domain', '1.2.2']);
    assert.equal(domain?.ObjectMeta.uid, undefined);
    assert.equal(domain?.Spec.Metadata.KubeVirt.UID, launcherVmiUid);
  });

  test('a sync of what runs changes nothing', async () => {
    const before = await currentDomain(subject());
    assert.deepEqual(await subject().cmd.sync(vmi), ok);
    assert.deepEqual(await subject().cmd.sync(launcherVmi({ phase: 'Running' })), ok);
    assert.deepEqual(await currentDomain(subject()), before);
  });

  test('a pause is an event, a sync leaves it, and only then does an unpause change something', async () => {
    assert.deepEqual(await command(subject(), 'unpauseVirtualMachine'), ok);
    assert.equal(await currentState(subject()), 'Running/Unknown');
    assert.deepEqual(await command(subject(), 'pauseVirtualMachine'), ok);
    await subject().agent.waitFor(hasStatus('Paused', 'User'), eventMs);
    assert.deepEqual(await command(subject(), 'pauseVirtualMachine'), ok);
    assert.deepEqual(await subject().cmd.sync(launcherVmi({ phase: 'Running' })), ok);
    assert.equal(await currentState(subject()), 'Paused/User');
    assert.deepEqual(await command(subject(), 'unpauseVirtualMachine'), ok);
    assert.equal(await currentState(subject()), 'Running/Unknown');
  });

  test('what needs an agent in the guest says that there is none', async () => {
    const { cmd } = subject();
    const freeze = await cmd.call(cmd.client.freezeVirtualMachine, { ...vmiRequest(vmi), unfreezeTimeoutSeconds: 0 });
    const unfreeze = await command(subject(), 'unfreezeVirtualMachine');
    for (const { success, message } of [freeze, unfreeze]) {
      assert.equal(success, false);
      assert.match(message, /^LibvirtError\(Code=86, Domain=10, Message='Guest agent is not responding/);
    }
    const exec = { domainName: 'default_small', Command: 'true', Args: [], timeoutSeconds: 1 };
    await assert.rejects(cmd.call(cmd.client.exec, exec), { code: 2, details: /Guest agent is not responding/ });
    const ping = { domainName: 'default_small', timeoutSeconds: 1 };
    await assert.rejects(cmd.call(cmd.client.guestPing, ping), { code: 2, details: /Guest agent is not responding/ });
    const foreign = { ...ping, domainName: 'default_other' };
    await assert.rejects(cmd.call(cmd.client.guestPing, foreign), {
      code: 2,
      details: 'this launcher has the domain default_small, not default_other',
    });
  });

  test('a probe that fails is an event of the VMI', async () => {
    await subject().agent.waitForK8sEvent(({ reason }) => reason === 'GuestAgentPingFailed', eventMs);
  });

  test('it is reset without another state', async () => {
    assert.deepEqual(await command(subject(), 'resetVirtualMachine'), ok);
    assert.equal(await currentState(subject()), 'Running/Unknown');
  });

  test('a VMI that is not to migrate is refused on both sides; there is nothing to cancel, and nothing to finish', async () => {
    const { cmd } = subject();
    const migrate = { ...vmiRequest(vmi), options: Buffer.from('{}') };
    assert.deepEqual(await cmd.call(cmd.client.migrateVirtualMachine, migrate), noMigration);
    assert.deepEqual(await command(subject(), 'syncMigrationTarget'), noMigration);
    for (const call of ['cancelVirtualMachineMigration', 'finalizeVirtualMachineMigration'] as const) {
      assert.deepEqual(await command(subject(), call), ok, call);
    }
    assert.deepEqual(await command(subject(), 'signalTargetPodCleanup'), ok);
  });

  test('statistics of the domain are there, those behind a gate are refused', async () => {
    const { cmd } = subject();
    const { response, domainStats } = await cmd.call(cmd.client.getDomainStats, {});
    assert.deepEqual(response, ok);
    assert.equal(JSON.parse(domainStats).Name, 'default_small');
    await assert.rejects(cmd.call(cmd.client.getVmStats, {} as never), {
      code: 2,
      details: 'VMStatsCollector feature gate is not enabled',
    });
    assert.match((await cmd.call(cmd.client.getQemuVersion, {})).version, /^QEMU \d+\.\d+\.\d+$/);
  });

  test('the first shutdown is noted with its time, which the next one leaves', async () => {
    assert.deepEqual(await command(subject(), 'shutdownVirtualMachine'), ok);
    const noted = await subject().agent.waitFor(
      ({ domain }) => Boolean(domain.Spec.Metadata.KubeVirt.GracePeriod?.DeletionTimestamp),
      eventMs,
    );
    const since = noted.domain.Spec.Metadata.KubeVirt.GracePeriod?.DeletionTimestamp;
    assert.deepEqual(await command(subject(), 'shutdownVirtualMachine'), ok);
    const domain = await currentDomain(subject());
    assert.equal(domain?.Spec.Metadata.KubeVirt.GracePeriod?.DeletionTimestamp, since);
    assert.match(String(since), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });

  test('a kill ends the guest', async () => {
    assert.deepEqual(await command(subject(), 'killVirtualMachine'), ok);
    const { type } = await subject().agent.waitFor(hasStatus('Shutoff', 'Destroyed'), eventMs);
    assert.equal(type, 'MODIFIED');
  });

  test('what has ended stays as it ended, and is not started again', async () => {
    for (const call of ['killVirtualMachine', 'shutdownVirtualMachine', 'pauseVirtualMachine'] as const) {
      assert.deepEqual(await command(subject(), call), ok, call);
    }
    assert.deepEqual(await subject().cmd.sync(vmi), ok);
    assert.equal(await currentState(subject()), 'Shutoff/Destroyed');
    assert.match((await command(subject(), 'resetVirtualMachine')).message, /domain is not running/);
  });

  test('a delete takes the domain away, and its last event says so', async () => {
    assert.deepEqual(await command(subject(), 'deleteVirtualMachine'), ok);
    const { type, domain } = await subject().agent.waitFor(isGone, eventMs);
    assert.deepEqual([type, domain.Status.Status, domain.Status.Reason], ['MODIFIED', 'NoState', 'NonExistent']);
    assert.deepEqual([domain.ObjectMeta.uid, domain.Spec.Metadata.KubeVirt.UID], [launcherVmiUid, launcherVmiUid]);
    assert.equal(subject().agent.events.at(-1)?.domain.ObjectMeta.deletionTimestamp !== undefined, true);
  });

  endsAfterDelete(subject);
}

/** After the last event was taken. */
function endsAfterDelete(subject: () => LauncherSubject): void {
  test('the launcher ends, its socket’s file stays, and nobody answers there', async () => {
    await subject().ended;
    assert.ok(socketFileStays(subject()));
    const caller = new CmdCaller(subject().commandSocket);
    await assert.rejects(caller.call(caller.client.ping, {}, 5_000), { code: 14 });
    caller.close();
  });
}

function deletedEarly(subject: () => LauncherSubject): void {
  test('the guest runs on', async () => {
    assert.deepEqual(await subject().cmd.sync(vmi), ok);
    await subject().agent.waitFor(hasStatus('Running'), eventMs);
    assert.deepEqual(await command(subject(), 'deleteVirtualMachine'), ok);
    assert.equal(await currentState(subject()), 'Running/Unknown');
    assert.equal(subject().agent.events.filter(isGone).length, 0);
  });

  test('with the end of the guest the domain is gone', async () => {
    assert.deepEqual(await command(subject(), 'killVirtualMachine'), ok);
    await subject().agent.waitFor(isGone, eventMs);
  });

  endsAfterDelete(subject);
}

function startsPaused(subject: () => LauncherSubject): void {
  test('it is paused, and a sync leaves it', async () => {
    const paused = launcherVmi({ spec: { startStrategy: 'Paused' } });
    assert.deepEqual(await subject().cmd.sync(paused), ok);
    await subject().agent.waitFor(hasStatus('Paused', 'User'), eventMs);
    assert.deepEqual(await subject().cmd.sync(paused), ok);
    assert.equal(await currentState(subject()), 'Paused/User');
  });

  test('a paused guest is killed as a running one', async () => {
    assert.deepEqual(await command(subject(), 'killVirtualMachine'), ok);
    await subject().agent.waitFor(hasStatus('Shutoff', 'Destroyed'), eventMs);
  });
}

function ownEnd(subject: () => LauncherSubject): void {
  test('the end is an event, and no sync starts the guest again', async () => {
    assert.deepEqual(await subject().cmd.sync(vmi), ok);
    await subject().agent.waitFor(hasStatus('Running'), eventMs);
    subject().powerOff?.();
    await subject().agent.waitFor(hasStatus('Shutoff', 'Shutdown'), eventMs);
    assert.deepEqual(await subject().cmd.sync(vmi), ok);
    assert.deepEqual(await command(subject(), 'killVirtualMachine'), ok);
    assert.equal(await currentState(subject()), 'Shutoff/Shutdown');
  });

  test('a delete takes the domain away', async () => {
    assert.deepEqual(await command(subject(), 'deleteVirtualMachine'), ok);
    await subject().agent.waitFor(isGone, eventMs);
    assert.equal(await currentStateUnlessEnded(subject()), 'none');
  });
}

/** The launcher may be gone by now. */
async function currentStateUnlessEnded(subject: LauncherSubject): Promise<string> {
  return Promise.race([currentState(subject), subject.ended.then(() => 'none')]);
}
