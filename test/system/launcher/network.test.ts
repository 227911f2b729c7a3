import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Interface, Network, VirtualMachineInstance } from '../../../src/api/index.ts';
import type { CmdCaller } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';
import { bridgePod, masqueradePod, TestNamespace } from '../../fixtures/pod-bridge.ts';

const resolvConf = 'search ns1.svc.cluster.local\nnameserver 10.96.0.10\n';
const blueMac = '02:00:00:00:00:0b';
const blueDevices = { link: 'pod16477688c0e', bare: '16477688c0e', tap: 'tap16477688c0e' };

const primary: Interface = { name: 'default', masquerade: {}, macAddress: '02:00:00:00:00:01' };
const blue: Interface = { name: 'blue', bridge: {} };
const networks: Network[] = [
  { name: 'default', pod: {} },
  { name: 'blue', multus: { networkName: 'blue' } },
];

function vmiWith(interfaces: Interface[], phase: 'Scheduled' | 'Running' = 'Running'): VirtualMachineInstance {
  const used = networks.filter(({ name }) => interfaces.some((iface) => iface.name === name));
  const vmi = guestVmi({ phase, devices: { interfaces }, more: { networks: used } });
  // As virt-controller writes it when Multus has plugged the pod.
  const status = interfaces.map(({ name }) => ({ name, infoSource: name === 'blue' ? 'multus-status' : 'domain' }));
  vmi.status = { ...vmi.status, interfaces: status };
  return vmi;
}

for (const nonRoot of [false, true]) {
  describe(`the network of a guest under a ${nonRoot ? 'non-root' : 'root'} launcher`, () => {
    let namespace: TestNamespace;
    let bench: LauncherBench;
    let pod: LauncherSandbox;
    let agent: NotifyAgent;
    let cmd: CmdCaller;
    let shell: GuestShell;

    const sync = async (...interfaces: Interface[]) =>
      assert.deepEqual(await cmd.sync(vmiWith(interfaces)), { success: true, message: '' }, pod.log());
    const guestShows = (command: string, expected: RegExp) =>
      eventually(async () => assert.match(await shell.run(command), expected), 30_000);
    const namesInDomain = async () => {
      const { domain } = await cmd.call(cmd.client.getDomain, {});
      const interfaces: { Alias: { Name: string } }[] = JSON.parse(domain).Spec.Devices.Interfaces ?? [];
      return interfaces.map(({ Alias }) => Alias.Name).sort();
    };

    before(async () => {
      assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
      namespace = new TestNamespace('system');
      bench = await LauncherBench.create();
      const network = { namespace: namespace.name, resolvConf };
      const env = { VIRT_LAUNCHER_NETWORK: 'tap' };
      pod = await bench.startPod({ nonRoot, kernelBootDir: guestDir, network, env });
      agent = await bench.startAgent(pod);
      cmd = await bench.callerOf(pod);
    });
    after(async () => {
      shell?.close();
      await bench?.dispose();
      namespace?.remove();
    });

    test('before the agent has set it up the start is refused in words, and no QEMU runs', async () => {
      const answer = await cmd.sync(vmiWith([primary], 'Scheduled'));
      assert.equal(answer.success, false);
      assert.match(answer.message, /the pod lacks eth0, k6t-eth0, tap0 \(there are: lo\).*log of the agent/);
      assert.deepEqual(pod.pids('guest=default_small'), []);
    });

    test('masquerade: the guest boots with address, gateway, DNS and MTU', async () => {
      masqueradePod(namespace);
      assert.deepEqual(await cmd.sync(vmiWith([primary], 'Scheduled')), { success: true, message: '' }, pod.log());
      await agent.waitFor(hasStatus('Running'), 10_000);
      shell = new GuestShell(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
      await shell.login();
      await guestShows('ip -4 addr show dev eth0', /inet 10\.0\.2\.2\/24/);
      await guestShows('ip route', /default via 10\.0\.2\.1 dev eth0/);
      await guestShows('cat /etc/resolv.conf', /nameserver 10\.96\.0\.10/);
      await guestShows('cat /sys/class/net/eth0/mtu', /1450/);
      await guestShows('cat /sys/class/net/eth0/address', /02:00:00:00:00:01/);
      await guestShows('ping -c 1 -W 5 10.0.2.1', / 0% packet loss/);
      assert.ok(existsSync(path.join(pod.privateDir, 'dhcp_started-eth0')));
    });

    test('a sync that is repeated changes nothing', async () => {
      await sync(primary);
      assert.deepEqual(await namesInDomain(), ['default']);
      assert.equal(pod.pids('guest=default_small').length, 1);
    });

    test('the link goes down and up as the VMI says', async () => {
      await sync({ ...primary, state: 'down' });
      await guestShows('cat /sys/class/net/eth0/carrier', /^0$/m);
      const { domain } = await cmd.call(cmd.client.getDomain, {});
      assert.equal(JSON.parse(domain).Spec.Devices.Interfaces[0].LinkState.State, 'down');
      await sync({ ...primary, state: 'up' });
      await guestShows('cat /sys/class/net/eth0/carrier', /^1$/m);
    });

    test('an interface that Multus has not plugged yet is not there', async () => {
      const vmi = vmiWith([primary, blue]);
      vmi.status = { ...vmi.status, interfaces: [] };
      assert.equal((await cmd.sync(vmi)).success, true);
      assert.deepEqual(await namesInDomain(), ['default']);
    });

    test('one that is plugged in before the agent has set it up is refused in words, and the guest goes on', async () => {
      const { success, message } = await cmd.sync(vmiWith([primary, blue]));
      assert.deepEqual([success, /lacks pod16477688c0e/.test(message)], [false, true], message);
      assert.deepEqual(await namesInDomain(), ['default']);
    });

    test('an interface that is plugged in gets its own address, once', async () => {
      bridgePod(namespace, { ...blueDevices, server: '169.254.75.11', mac: blueMac });
      const cache = {
        IP: { IP: '192.168.7.5', Mask: '////AA==' },
        MAC: Buffer.from(blueMac.replaceAll(':', ''), 'hex').toString('base64'),
        Routes: [{ Dst: { IP: '10.99.0.0', Mask: '//8AAA==' }, Gw: '192.168.7.1' }],
        IPAMDisabled: false,
        Gateway: '192.168.7.1',
      };
      writeFileSync(path.join(pod.privateDir, `vif-cache-${blueDevices.link}.json`), JSON.stringify(cache));
      await sync(primary, blue);
      await sync(primary, blue);
      assert.deepEqual(await namesInDomain(), ['blue', 'default']);
      await guestShows('ls /sys/class/net', /eth1/);
      await guestShows('cat /sys/class/net/eth1/address', new RegExp(blueMac));
      await shell.run(
        "printf '#!/bin/sh\\necho got $1 $ip/$mask $router [$staticroutes] $mtu\\n' >/tmp/s; chmod +x /tmp/s; ip link set eth1 up",
      );
      const lease = await shell.run('udhcpc -n -q -f -i eth1 -t 10 -T 1 -O staticroutes -O mtu -s /tmp/s 2>&1');
      assert.match(lease, /got bound 192\.168\.7\.5\/24 192\.168\.7\.1 \[10\.99\.0\.0\/16 192\.168\.7\.1\] 1400/);
    });

    test('an interface that is unplugged leaves the guest, the domain, and its servers', async () => {
      const gone: Interface = { ...blue, state: 'absent' };
      await sync(primary, gone);
      await guestShows('ls /sys/class/net', /^(?!.*eth1)/s);
      await eventually(async () => assert.deepEqual(await namesInDomain(), ['default']));
      await sync(primary, gone);
      assert.ok(!existsSync(path.join(pod.privateDir, `dhcp_started-${blueDevices.link}`)));
      await sync(primary);
      await guestShows('ping -c 1 -W 5 10.0.2.1', / 0% packet loss/);
    });
  });
}
