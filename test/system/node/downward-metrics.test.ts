import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

/** Of the disk that has the signature; the guest keeps nothing of it once it is closed. */
const readDisk = 'for d in /dev/vd?; do head -c 4 $d | grep -q mvbd && head -c 4096 $d | tr -d "\\000"; done';
/** The port of the name that guests' tools look for, asked as upstream's vm-dump-metrics asks. */
const askChannel =
  'port=/dev/$(basename $(dirname $(grep -l vhostmd /sys/class/virtio-ports/*/name))); ' +
  "exec 3<>$port; printf 'GET /metrics/XML\\n\\n' >&3; " +
  'while read -r line <&3; do [ -z "$line" ] && break; echo "$line"; done; exec 3>&-';

describe('figures of the host in a guest of the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    const vmi = demoVmi('figures');
    const devices = vmi.spec.domain.devices ?? {};
    vmi.spec.domain.devices = {
      ...devices,
      downwardMetrics: {},
      disks: [...(devices.disks ?? []), { name: 'metrics', disk: { bus: 'virtio' } }],
    };
    vmi.spec.volumes = [...(vmi.spec.volumes ?? []), { name: 'metrics', downwardMetrics: {} }];
    await node.apply(vmi);
    await node.vmiUntil('figures', (found) => found?.status?.phase === 'Running');
    await untilLogin(await node.serial('figures'), AbortSignal.timeout(60_000));
    await node.cli(['console', 'figures'], 'root\n');
  });
  after(() => node.dispose());

  const run = async (commands: string) => (await node.cli(['console', 'figures'], `\n${commands}\n`)).stdout;
  const timeIn = (text: string) => Number(/<name>Time<\/name>\s*<value>(\d+)</.exec(text)?.[1]);

  function hasFigures(text: string): void {
    assert.match(text, /<name>VirtualizationVendor<\/name>\s*<value>kubevirt\.io</);
    assert.match(text, /<name>VirtProductInfo<\/name>\s*<value>QEMU \d/);
    assert.match(text, /<name>ResourceProcessorLimit<\/name>\s*<value>[1-9]/);
    assert.match(text, /<name>ResourceMemoryLimit<\/name>\s*<value>[1-9]\d{4,}</);
    assert.match(text, /<name>FreePhysicalMemory<\/name>\s*<value>[1-9]/);
    assert.ok(Math.abs(timeIn(text) - Date.now() / 1000) < 30, text);
  }

  test('the guest reads them from its disk, and later ones later', async () => {
    let first = '';
    await eventually(async () => {
      first = await run(readDisk);
      assert.match(first, /mvbd/);
      hasFigures(first);
    }, 30_000);
    await eventually(async () => assert.ok(timeIn(await run(readDisk)) > timeIn(first)), 30_000);
  });

  test('the guest asks for them on the channel; another request is refused in words', async () => {
    await eventually(async () => hasFigures(await run(askChannel)), 30_000);
    assert.match(await run(askChannel.replace('/metrics/XML', '/else')), /^INVALID REQUEST/m);
  });

  test('both go on after the agent was killed', async () => {
    const killed = Date.now() / 1000;
    process.kill(await node.pidOf('virt-handler'), 'SIGKILL');
    await eventually(async () => {
      const text = await run(readDisk);
      assert.ok(timeIn(text) > killed + 1, text);
      hasFigures(text);
    }, 60_000);
    await eventually(async () => hasFigures(await run(askChannel)), 30_000);
  });
});
