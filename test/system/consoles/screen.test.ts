import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { agentOf } from '../../../src/standalone/index.ts';
import { AgentConsole } from '../../fixtures/agent-console.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';
import { decodePng, litPixelsOf } from '../../fixtures/png.ts';
import { litPixels, RfbClient } from '../../fixtures/rfb-client.ts';
import { type StreamClient, UpgradeRefused } from '../../fixtures/stream-client.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

interface Screen {
  readonly stream: StreamClient;
  readonly rfb: RfbClient;
}

describe('the screen of a real QEMU, through the agent', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let agent: AgentConsole;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    agent = new AgentConsole(agentOf(node.paths));
    await node.apply(demoVmi('seen'));
    await node.vmiUntil('seen', (vmi) => vmi?.status?.phase === 'Running');
  });
  after(() => node.dispose());

  async function watch(query = '', shared = true): Promise<Screen> {
    const stream = await agent.stream('seen', `vnc${query}`);
    return { stream, rfb: await RfbClient.connect(stream.duplex(), shared) };
  }

  const lit = async ({ rfb }: Screen) => litPixels(await rfb.update());

  test('shakes hands as QEMU does and shows a screen that is not black', async () => {
    const screen = await watch();
    assert.match(screen.rfb.name, /^QEMU/);
    assert.ok(screen.rfb.size.width >= 640 && screen.rfb.size.height >= 400, JSON.stringify(screen.rfb.size));
    await eventually(async () => assert.ok((await lit(screen)) > 1000), 60_000);
    await screen.stream.close();
  });

  test('what is typed appears on it', async () => {
    const screen = await watch();
    await eventually(async () => assert.ok((await lit(screen)) > 1000), 60_000);
    const before = await lit(screen);
    // On the text screen's own login, which is not that of the serial line. No line is ended: login would answer seconds later.
    await eventually(async () => {
      screen.rfb.type('root');
      assert.ok((await lit(screen)) > before + 500);
    }, 60_000);
    await screen.stream.close();
  });

  test('a newcomer takes over, also one that asked QEMU for the screen for itself alone', async () => {
    const first = await watch();
    const second = await watch('', false);
    assert.equal((await first.stream.untilClosed()).code, 4001);
    assert.ok((await lit(second)) > 0);
    await second.stream.close();
  });

  test('preserveSession=true is refused while somebody writes, and is let in when nobody does', async () => {
    const first = await watch();
    await assert.rejects(watch('?preserveSession=true'), (error) => {
      assert.ok(error instanceof UpgradeRefused);
      assert.deepEqual([error.httpStatus, error.body.trim()], [503, 'Active VNC connection. Request denied.']);
      return true;
    });
    assert.ok((await lit(first)) > 0);
    await first.stream.close();
    await eventually(async () => (await watch('?preserveSession=true')).stream.close());
  });

  test('viewers look on beside a writer, see what it types, and type nothing themselves', async () => {
    const writer = await watch();
    // Also the one that asks QEMU to send the others away.
    const viewers = [await watch('?access=view', false), await watch('?access=view')];
    for (const screen of [writer, ...viewers]) assert.ok((await lit(screen)) > 0);
    const [viewer] = viewers;
    assert.ok(viewer);
    const before = await settled(viewer);
    for (let count = 0; count < 20; count++) viewer.rfb.key(0x78);
    assert.equal(await steady(viewer), before);
    writer.rfb.type('xxxxxxxxxx');
    await eventually(async () => assert.ok((await lit(viewer)) > before));
    assert.equal(writer.stream.closed, undefined);
    await Promise.all([writer, ...viewers].map(({ stream }) => stream.close()));
  });

  /** When nothing changes any more of what was typed before. */
  async function settled(screen: Screen): Promise<number> {
    let pixels = -1;
    let same = 0;
    await eventually(async () => {
      const before = pixels;
      pixels = await steady(screen);
      same = pixels === before ? same + 1 : 0;
      assert.ok(same >= 3);
    }, 60_000);
    return pixels;
  }

  /** The cursor of a text screen blinks: the least of some pictures is without it. */
  async function steady(screen: Screen): Promise<number> {
    let least = Number.POSITIVE_INFINITY;
    for (let count = 0; count < 12; count++) {
      least = Math.min(least, await lit(screen));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return least;
  }

  test('GET vnc/screenshot is a picture of the screen', async () => {
    const { status, contentType, body } = await agent.call('GET', 'seen', 'vnc/screenshot');
    assert.equal(status, 200, body.toString());
    assert.equal(contentType, 'image/png');
    const picture = decodePng(body);
    assert.ok(picture.width >= 640 && picture.height >= 400, `${picture.width}x${picture.height}`);
    assert.ok(litPixelsOf(picture) > 1000, `${litPixelsOf(picture)} pixels are not black`);
  });
});
