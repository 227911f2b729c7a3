import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { hasStatus, isGone, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { launcherVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

for (const nonRoot of [false, true]) {
  describe(`a VMI's life in a ${nonRoot ? 'non-root' : 'root'} launcher`, () => {
    let bench: LauncherBench;
    let pod: LauncherSandbox;
    let agent: NotifyAgent;
    let cmd: CmdCaller;
    const vmi = launcherVmi();

    before(async () => {
      bench = await LauncherBench.create();
      pod = await bench.startPod({ nonRoot });
      agent = await bench.startAgent(pod);
      cmd = await bench.callerOf(pod);
    });
    after(() => bench?.dispose());

    test('before the first sync there is no domain, and commands on it say so', async () => {
      const { response, domain } = await cmd.call(cmd.client.getDomain, {});
      assert.deepEqual([response, domain], [{ success: true, message: '' }, '']);
      const pause = await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmi));
      assert.deepEqual(pause, { success: false, message: 'Domain not found.' });
      const stats = await cmd.call(cmd.client.getDomainStats, {});
      assert.equal(stats.response?.message, 'empty DomainStats');
      for (const call of [cmd.client.shutdownVirtualMachine, cmd.client.killVirtualMachine]) {
        assert.equal((await cmd.call(call, vmiRequest(vmi))).success, true);
      }
      assert.deepEqual(agent.events, []);
    });

    test('a sync starts QEMU and the agent sees it run', async () => {
      assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
      const { domain } = await agent.waitFor(hasStatus('Running'), 5000);
      assert.equal(agent.events[0]?.type, 'ADDED');
      assert.equal(domain.ObjectMeta.uid, launcherVmiUid);
      assert.equal(domain.Spec.Type, 'qemu');
      assert.equal(domain.Spec.Metadata.KubeVirt.UID, launcherVmiUid);
      assert.equal(domain.Spec.Metadata.KubeVirt.GracePeriod?.DeletionGracePeriodSeconds, 3);
      assert.equal(pod.pids('guest=default_small').length, 1);
    });

    test('a second sync changes nothing', async () => {
      const qemu = pod.pids('guest=default_small');
      assert.equal((await cmd.sync(vmi)).success, true);
      assert.equal((await cmd.sync(launcherVmi({ phase: 'Running' }))).success, true);
      assert.deepEqual(pod.pids('guest=default_small'), qemu);
    });

    test('the domain, its statistics, its screen and the version can be read', async () => {
      const { domain } = await cmd.call(cmd.client.getDomain, {});
      const parsed = JSON.parse(domain);
      assert.equal(parsed.ObjectMeta.uid, undefined);
      assert.equal(parsed.Spec.Metadata.KubeVirt.UID, launcherVmiUid);
      const stats = JSON.parse((await cmd.call(cmd.client.getDomainStats, {})).domainStats);
      assert.equal(stats.Name, 'default_small');
      assert.equal(stats.Vcpu.length, 1);
      assert.equal(stats.Memory.Total, 65536);
      assert.ok(stats.MigrateDomainJobInfo);
      const shot = await cmd.call(cmd.client.getScreenshot, vmiRequest(vmi));
      assert.match(shot.mime, /^image\//);
      assert.ok(shot.data.length > 100);
      assert.match((await cmd.call(cmd.client.getQemuVersion, {})).version, /^QEMU \d+\.\d+\.\d+$/);
    });

    test('console and screen sockets are in the private directory', () => {
      for (const name of ['virt-serial0', 'virt-vnc']) {
        assert.ok(existsSync(`${pod.privateDir}/${launcherVmiUid}/${name}`), name);
      }
    });

    test('its memory is written as a core file into a volume, and the guest goes on', async () => {
      const volume = `${pod.shareDir}/hotplug-disks/dump`;
      mkdirSync(volume, { recursive: true, mode: 0o777 });
      chmodSync(volume, 0o777);
      const name = 'small-dump-20260102-030405.memory.dump';
      const order = { vmi: vmiRequest(vmi).vmi, dumpPath: `/var/run/kubevirt/hotplug-disks/dump/${name}` };
      const dump = () => cmd.call(cmd.client.virtualMachineMemoryDump, order);
      assert.deepEqual(await dump(), { success: true, message: '' });
      const told = await agent.waitFor(
        ({ domain }) => typeof domain.Spec.Metadata.KubeVirt.MemoryDump?.EndTimestamp === 'string',
        60_000,
      );
      const { FileName, Completed, Failed, FailureReason } = told.domain.Spec.Metadata.KubeVirt.MemoryDump ?? {};
      assert.deepEqual([FileName, Completed, Failed, FailureReason], [name, true, false, '']);
      const core = readFileSync(`${volume}/${name}`);
      assert.ok(core.length >= 64 * 2 ** 20, `${core.length} bytes`);
      // Magic number, 64 bits, little endian; type core; machine i386, for without an operating system its CPU has not left that mode.
      assert.equal(core.subarray(0, 6).toString('latin1'), '\x7fELF\x02\x01');
      assert.deepEqual([core.readUInt16LE(16), core.readUInt16LE(18)], [4, 3]);
      const { domain } = await cmd.call(cmd.client.getDomain, {});
      assert.equal(JSON.parse(domain).Status.Status, 'Running');
      assert.deepEqual(await dump(), { success: true, message: '' });
      assert.deepEqual(readdirSync(volume), [name]);
      const elsewhere = await cmd.call(cmd.client.virtualMachineMemoryDump, { ...order, dumpPath: `/etc/${name}` });
      assert.match(elsewhere.message, /is no place for a memory dump/);
    });

    test('pause and unpause reach the guest, and a sync leaves a pause on purpose alone', async () => {
      assert.equal((await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmi))).success, true);
      await agent.waitFor(hasStatus('Paused', 'User'), 5000);
      assert.equal((await cmd.sync(vmi)).success, true);
      const paused = JSON.parse((await cmd.call(cmd.client.getDomain, {})).domain);
      assert.equal(paused.Status.Status, 'Paused');
      assert.equal((await cmd.call(cmd.client.unpauseVirtualMachine, vmiRequest(vmi))).success, true);
      const running = JSON.parse((await cmd.call(cmd.client.getDomain, {})).domain);
      assert.equal(running.Status.Status, 'Running');
    });

    test('what needs a guest agent fails clearly without one', async () => {
      const freeze = await cmd.call(cmd.client.freezeVirtualMachine, { ...vmiRequest(vmi), unfreezeTimeoutSeconds: 0 });
      assert.match(freeze.message, /^LibvirtError\(Code=86, Domain=10, Message='Guest agent is not responding/);
      const exec = { domainName: 'default_small', Command: 'true', Args: [], timeoutSeconds: 1 };
      await assert.rejects(cmd.call(cmd.client.exec, exec), { code: 2, details: /guest agent/i });
      await assert.rejects(cmd.call(cmd.client.guestPing, { domainName: 'default_small', timeoutSeconds: 1 }), {
        code: 2,
      });
      await eventually(() => assert.equal(agent.k8sEvents.at(-1)?.reason, 'GuestAgentPingFailed'));
      assert.equal(agent.k8sEvents.at(-1)?.involvedObject.uid, launcherVmiUid);
    });

    test('reset works, and what is not there yet says so', async () => {
      assert.equal((await cmd.call(cmd.client.resetVirtualMachine, vmiRequest(vmi))).success, true);
      const target = await cmd.call(cmd.client.syncMigrationTarget, vmiRequest(vmi));
      assert.deepEqual(target, { success: false, message: 'cannot migrate VMI until migrationState is ready' });
      const migrate = { ...vmiRequest(vmi), options: Buffer.alloc(0) };
      assert.match(
        (await cmd.call(cmd.client.migrateVirtualMachine, migrate)).message,
        /until migrationState is ready/,
      );
      await assert.rejects(cmd.call(cmd.client.getVmStats, {} as never), {
        code: 2,
        details: 'VMStatsCollector feature gate is not enabled',
      });
    });

    test('shutdown is asked for and remembered; kill ends QEMU; a later sync does not start it again', async () => {
      assert.equal((await cmd.call(cmd.client.shutdownVirtualMachine, vmiRequest(vmi))).success, true);
      await agent.waitFor(({ domain }) => Boolean(domain.Spec.Metadata.KubeVirt.GracePeriod?.DeletionTimestamp), 5000);
      assert.equal((await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi))).success, true);
      await agent.waitFor(hasStatus('Shutoff', 'Destroyed'), 5000);
      assert.equal((await cmd.sync(vmi)).success, true);
      assert.deepEqual(pod.pids('guest=default_small'), []);
    });

    test('delete is reported to the agent, and the launcher leaves with 0', async () => {
      assert.equal((await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi))).success, true);
      const { domain, type } = await agent.waitFor(isGone, 5000);
      assert.deepEqual([type, domain.Status.Status, domain.Status.Reason], ['MODIFIED', 'NoState', 'NonExistent']);
      assert.equal(domain.Spec.Metadata.KubeVirt.UID, launcherVmiUid);
      assert.equal(await pod.exited, 0, pod.log());
      assert.equal(agent.events.filter(isGone).length, agent.events.slice(agent.events.findIndex(isGone)).length);
    });
  });
}
