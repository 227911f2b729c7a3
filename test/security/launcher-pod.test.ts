import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chown, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Attacker, attack, launcherUser } from '../fixtures/attacker.ts';
import { demoVmi, launcherPid, NodeProcess } from '../fixtures/node-process.ts';
import { abstractSocketsOf, descriptorsOf, everyPath, familyOf, listeningPortsOf } from '../fixtures/node-traces.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

interface Taken {
  readonly worked: readonly { readonly act: string; readonly path: string }[];
}

interface Network {
  readonly links: readonly string[];
  readonly worked: readonly string[];
}

interface Seen {
  readonly commands: readonly string[];
  readonly processOne: {
    readonly signal: string;
    readonly environment: string;
    readonly root: string;
    readonly cwd: string;
  };
  readonly foreign: readonly string[];
  readonly sharedMemory: readonly string[];
  readonly directories: Readonly<Record<string, readonly string[] | string>>;
  readonly mounts: readonly string[];
}

/** The pod has the programs and their packages to read, and lists the way to them, wherever this checkout is. */
function ofPrograms({ act, path: file }: Taken['worked'][number]): boolean {
  return ['dist/bin', 'node_modules', 'package.json']
    .map((name) => path.resolve(name))
    .some((program) => {
      const onTheWay = act === 'list' && program.startsWith(`${file}/`);
      return onTheWay || (['list', 'read'].includes(act) && `${file}/`.startsWith(`${program}/`));
    });
}

/** What somebody who took over a VM's QEMU or launcher gets of the host and of another VM. */
describe('a launcher pod of the standalone node that was taken over', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let qemu: number;
  let other: number;
  let pids: number[];
  let planted: string[];
  let segment: string;

  before(async () => {
    node = await NodeProcess.create();
    // Things of others that user and group 107 of the host may read.
    planted = await Promise.all(['/tmp', '/var/tmp', '/dev/shm', '/srv'].map((dir) => mkdtemp(`${dir}/of-another-`)));
    for (const dir of planted) {
      await writeFile(path.join(dir, 'file'), 'not yours');
      await chown(dir, 107, 107);
      await chown(path.join(dir, 'file'), 107, 107);
    }
    segment = /\d+/.exec(execFileSync('ipcmk', ['-M', '4096', '-p', '0666']).toString())?.[0] ?? '';
    await node.start(['start'], 'the node is up', ['/bin/bash', '-c', 'exec 77</etc/shadow; exec "$@"', 'bash']);
    await node.kubectl('create', 'secret', 'generic', 'creds', '--from-literal=userdata=#!/bin/sh');
    for (const name of ['taken', 'other']) {
      const vmi = demoVmi(name);
      vmi.spec.domain.devices = {
        ...vmi.spec.domain.devices,
        disks: ['init', 'data', 'file'].map((disk) => ({ name: disk, disk: { bus: 'virtio' } })),
      };
      const file = path.join(node.paths.hostDisksDir, `${name}.img`);
      vmi.spec.volumes = [
        { name: 'init', cloudInitNoCloud: { secretRef: { name: 'creds' } } },
        { name: 'data', emptyDisk: { capacity: '16Mi' } },
        { name: 'file', hostDisk: { path: file, type: 'DiskOrCreate', capacity: '16Mi' } },
      ];
      await node.apply(vmi);
    }
    for (const name of ['taken', 'other']) await node.vmiUntil(name, (vmi) => vmi?.status?.phase === 'Running');
    qemu = (await node.qemuPid('taken')) ?? 0;
    other = (await node.qemuPid('other')) ?? 0;
    pids = await familyOf([node.pid, qemu, other]);
  });
  after(async () => {
    if (segment) execFileSync('ipcrm', ['-m', segment]);
    for (const dir of planted ?? []) await rm(dir, { recursive: true, force: true });
    await node.dispose();
  });

  const attackers: readonly [string, () => Attacker][] = [
    ['its QEMU', () => launcherUser(qemu)],
    ['root of the pod without capabilities', () => ({ uid: 0, gid: 0, inside: qemu })],
  ];

  for (const [who, attacker] of attackers) {
    test(`${who} gets at nothing of the node and of the other VM by any path of the host`, async () => {
      const state = await everyPath(node.paths.stateDir);
      const ofHost = [
        '/etc/shadow',
        '/var/lib/dpkg/status',
        '/home',
        '/boot',
        '/srv',
        path.resolve('.git'),
        ...planted,
      ];
      const raw = [
        '/dev/mem',
        '/dev/kmsg',
        '/dev/vda',
        '/dev/sda',
        '/dev/loop-control',
        '/dev/fuse',
        '/dev/mqueue',
        // Root of the pod opens it, and can make nothing with it: see below.
        ...(who === 'its QEMU' ? ['/dev/net/tun'] : []),
      ];
      const abstractSockets = await abstractSocketsOf(pids);
      const ofNode = await attack<Taken>('take-files', attacker(), { paths: state, abstractSockets });
      const others = await attack<Taken>('take-files', attacker(), { paths: [...ofHost, ...raw], changes: false });
      assert.deepEqual(
        [...ofNode.worked, ...others.worked.filter((work) => !ofPrograms(work))].map(
          ({ act, path: file }) => `${act} ${file}`,
        ),
        [],
      );
    });

    test(`${who} cannot change what the kernel or programs of the host are told`, async () => {
      const kernel = ['sys/kernel/core_pattern', 'sys/kernel/modprobe', 'sysrq-trigger', 'irq/default_smp_affinity'];
      const paths = [
        ...kernel.map((name) => `/proc/${name}`),
        '/sys/kernel/uevent_helper',
        '/sys/power/state',
        '/usr/bin/env',
        '/usr/lib',
      ];
      const { worked } = await attack<Taken>('take-files', attacker(), {
        paths,
        reads: false,
        below: false,
        changes: false,
      });
      assert.deepEqual(
        worked.map(({ act, path: file }) => `${act} ${file}`),
        [],
      );
    });
  }

  test('nothing that whoever started the node left open is open in the node or in a pod', async () => {
    const lasting = await Promise.all([node.pid, qemu, other].map(descriptorsOf));
    for (const open of lasting) assert.ok(open.some((place) => place.startsWith('socket:')));
    const open = (await Promise.all(pids.map(descriptorsOf))).flat();
    assert.ok(!open.includes('/etc/shadow'));
  });

  test('its QEMU writes nowhere but in its own volumes and in places that go with the pod', async () => {
    const paths = ['/etc', '/run', '/var', '/tmp', '/dev', '/root', '/home', '/opt', '/mnt', '/srv'];
    const { worked } = await attack<Taken>('take-files', launcherUser(qemu), { paths, reads: false, changes: false });
    const own =
      /^\/(run\/(kubevirt|libvirt)|tmp|var\/(tmp|run)|dev\/(shm|pts|null|zero|full|random|urandom|tty|ptmx|kvm)|var\/(lib|log)\/libvirt)/;
    assert.deepEqual(
      worked.filter(({ path: file }) => !own.test(file)),
      [],
    );
    assert.ok(worked.length > 0, 'not even its own: the attack did not look');
  });

  test('its QEMU sees no process but the pod’s, reaches none of them that is root’s, and no memory that others share', async () => {
    const seen = await attack<Seen>('look-around', launcherUser(qemu), {
      foreignPids: [other, node.pid, await node.pidOf('virt-handler')],
      directories: ['/tmp', '/var/tmp', '/dev/shm', '/home', '/srv', '/run/kubevirt-private/vmi-disks/file'],
    });
    assert.ok(seen.commands.some((command) => command.includes('guest=default_taken')));
    // By their programs: the folder of this checkout may have any name.
    assert.deepEqual(
      seen.commands.filter((command) => /default_other|bin\/virt-(handler|node)/.test(command)),
      [],
    );
    assert.deepEqual(seen.foreign, ['ESRCH', 'ESRCH', 'ESRCH']);
    const none = 'EACCES';
    assert.deepEqual(seen.processOne, { signal: 'EPERM', environment: none, root: none, cwd: none });
    assert.deepEqual(seen.sharedMemory, []);
    // The pod has the program's own folder, wherever this checkout is; its /tmp and /var/tmp are one.
    const program = (...directories: string[]) =>
      directories
        .filter((directory) => process.cwd().startsWith(`${directory}/`))
        .map(
          (directory) =>
            process
              .cwd()
              .slice(directory.length + 1)
              .split('/')[0],
        );
    const temporary = program('/tmp', '/var/tmp');
    const orNone = (found: unknown[]) => (found.length > 0 ? found : 'ENOENT');
    assert.deepEqual(seen.directories, {
      ...{ '/tmp': temporary, '/var/tmp': temporary, '/dev/shm': program('/dev/shm') },
      ...{ '/home': orNone(program('/home')), '/srv': orNone(program('/srv')) },
      '/run/kubevirt-private/vmi-disks/file': ['taken.img'],
    });
    assert.deepEqual(
      seen.mounts.filter((point) => point.startsWith('/.host') || point.includes('of-another')),
      [],
    );
  });

  for (const [who, attacker] of attackers) {
    test(`a taken launcher reaches no port of the node, and has no link but its pod’s own: ${who}`, async () => {
      assert.match(node.output, /pod network 10\./, 'this machine has none: install dnsmasq-base, nftables, iproute2');
      const ports = await listeningPortsOf(pids);
      assert.ok(ports.includes(26443));
      const paths = ['/api/v1/namespaces/default/secrets', '/api/vms'];
      const answers = await attack<{ answer: number | string }[]>('ask-ports', attacker(), { ports, paths });
      assert.ok(answers.length > 0);
      assert.deepEqual(
        answers.filter(({ answer }) => typeof answer === 'number'),
        [],
      );
      const seen = await attack<Network>('network', attacker(), {});
      assert.deepEqual(
        seen.links.filter(
          (name) => !/^(lo|eth0|eth0-nic|k6t-eth0|tap0|sit0|ip6tnl0|tunl0|gre0|ifb\d|dummy\d)$/.test(name),
        ),
        [],
      );
      assert.ok(seen.links.includes('eth0'));
      assert.deepEqual(seen.worked, []);
    });
  }

  test('root of the pod has the capabilities that libvirt needs and can get no more', async () => {
    const uid = (await node.vmi('taken'))?.metadata.uid ?? '';
    const status = await readFile(`/proc/${await launcherPid(uid)}/status`, 'utf8');
    const field = (name: string) => new RegExp(`^${name}:\\s*(\\w+)$`, 'm').exec(status)?.[1];
    // chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service sys_nice audit_write
    const allowed = [0, 1, 3, 4, 5, 6, 7, 8, 10, 23, 29].reduce((set, bit) => set | (1n << BigInt(bit)), 0n);
    assert.equal(BigInt(`0x${field('CapBnd')}`), allowed);
    assert.equal(BigInt(`0x${field('CapPrm')}`), allowed);
    assert.equal(field('NoNewPrivs'), '1');
    const devices = await readdir(`/proc/${qemu}/root/dev`);
    assert.deepEqual(
      devices.filter((name) => /^(sd|vd|nvme|loop|mem|kmsg|fuse|mapper|disk|input)/.test(name)),
      [],
    );
  });
});
