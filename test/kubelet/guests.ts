import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import { kernelArgs } from '../fixtures/guest-kernel.ts';
import { isAgent, type NodeMachine, nodeName } from './node-machine.ts';

/** Seconds until `check` passes, for the report. */
export async function timed(
  t: TestContext,
  what: string,
  check: () => void | Promise<void>,
  { forMs = 120_000, pauseMs }: { readonly forMs?: number; readonly pauseMs?: number } = {},
): Promise<void> {
  const startMs = performance.now();
  await eventually(check, forMs, pauseMs);
  t.diagnostic(`${what}: ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
}

/** What runs in a guest for the first time, and each time when it is asked; `started` is the first line of its answer. */
export interface GuestScripts {
  readonly atBoot?: string;
  readonly whenAsked: string;
}

export function userData({ atBoot = '', whenAsked }: GuestScripts): string {
  return `#!/bin/sh
mkdir -p /www/cgi-bin
cat >/www/cgi-bin/guest <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\\n\\n'
echo started $(cat /run/started)
${whenAsked}END
chmod 755 /www/cgi-bin/guest
cat /proc/sys/kernel/random/uuid >/run/started
${atBoot}httpd -p 8080 -h /www
`;
}

/** A kernel with a file system in memory, from the guest's image. */
export const guestKernel = {
  container: { image: 'localhost/guest:1', kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initramfs.gz' },
  kernelArgs,
};

/** The same with a guest agent, which `startGuestAgent` starts: without udev its port is found by the kernel's name for it. */
export const guestKernelWithAgent = {
  ...guestKernel,
  container: { ...guestKernel.container, initrdPath: '/boot/initramfs-agent.gz' },
};
export const startGuestAgent = `for port in /sys/class/virtio-ports/*; do
  [ "$(cat $port/name)" = org.qemu.guest_agent.0 ] && qemu-ga -d -m virtio-serial -p /dev/\${port##*/} -t /run -f /run/qemu-ga.pid
done
`;

let pods = 0;

/** What the guest answers another pod that asks at this address. */
export async function askedByPod(machine: NodeMachine, address: string, query = ''): Promise<string> {
  pods++;
  const request = String.raw`printf 'GET /cgi-bin/guest?${query} HTTP/1.0\r\n\r\n' | nc -w 5 ${address} 8080`;
  // The guest may still boot.
  const ask = `for i in 1 2 3 4 5 6; do got=$(${request}); case $got in *started*) echo "$got"; exit;; esac; sleep 2; done; exit 1`;
  return machine.runPod(`asks-${pods}`, ask, {});
}

/** When the guest booted. */
export const startOf = (answer: string) => /^started (\S+)$/m.exec(answer)?.[1] ?? '';

export const launcherPod = (machine: NodeMachine, vmi: string) =>
  machine.get('pods', '-l', `kubevirt.io=virt-launcher,vm.kubevirt.io/name=${vmi}`).items[0];

/** The node takes VMs. */
export async function schedulable(machine: NodeMachine, node = nodeName): Promise<void> {
  await machine.agentPod(120_000, node);
  await eventually(() => {
    const { labels } = machine.get('node', node).metadata;
    assert.equal(labels['kubevirt.io/schedulable'], 'true');
  }, 60_000);
}

/** As one that crashes; resolves when the kubelet has started the next one and it is ready. */
export async function agentKilled(machine: NodeMachine): Promise<void> {
  const [pid = 0, ...others] = machine.processesOf(isAgent);
  assert.deepEqual(others, []);
  process.kill(pid, 'SIGKILL');
  await eventually(() => {
    const [next, ...more] = machine.processesOf(isAgent);
    assert.ok(next !== undefined && next !== pid && more.length === 0);
  }, 120_000);
  await machine.agentPod();
}

/** A claim that is bound to this volume of the node. */
export function bindClaim(machine: NodeMachine, name: string, volume: object, common: object = {}): void {
  const both = { accessModes: ['ReadWriteOnce'], storageClassName: '', ...common };
  const create = (kind: string, spec: object) =>
    machine.create({ apiVersion: 'v1', kind, metadata: { name }, spec: { ...both, ...spec } });
  create('PersistentVolume', { capacity: { storage: '64Mi' }, ...volume });
  create('PersistentVolumeClaim', { resources: { requests: { storage: '32Mi' } }, volumeName: name });
}
