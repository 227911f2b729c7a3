import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { OwnMetrics } from '../../../src/agent/serve/metrics/own-metrics.ts';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { QueueMetrics } from '../../../src/serving/index.ts';
import { quietFigures } from '../../fixtures/agent-figures.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { closed, ProxyNode, TestMove, withoutProxies } from '../../fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../../fixtures/rooted-launcher.ts';

const prefix = 'kubevirt_virt_handler_migration_proxy_';

/** What an agent publishes of its proxies: name → value. */
async function published(node: ProxyNode): Promise<Record<string, number>> {
  const registry = new Registry();
  const figures = quietFigures({ migrationProxies: () => node.proxies.figures() });
  const own = new OwnMetrics(
    { nodeName: 'node1', kubeVersion: 'v1.9.0' },
    {
      ...{ registry, queues: new QueueMetrics(registry), figures, deprecatedMachines: () => [] },
      ...{ clock: systemClock, log: silentLogger },
    },
  );
  const lines = (await own.text()).split('\n').filter((line) => line.startsWith(prefix));
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = '', side = '', value = ''] = /^(\w+)\{side="(\w+)"\} (\d+)$/.exec(line) ?? [];
      return [`${side} ${name.slice(prefix.length)}`, Number(value)];
    }),
  );
}

const side = (name: string, [vmis, streams, bytes, rate, refused]: readonly number[]) => ({
  [`${name} vmis`]: vmis,
  [`${name} streams`]: streams,
  [`${name} bytes`]: bytes,
  [`${name} bytes_per_second`]: rate,
  [`${name} refused`]: refused,
});
const nothing = [0, 0, 0, 0, 0] as const;

test('the metrics of migration proxies have the figures of what they carry', { skip: withoutProxies }, async (t) => {
  const authority = await TestAuthority.make();
  t.after(() => authority.remove());
  const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
  const [from, to] = [await ProxyNode.make(t, authority), await ProxyNode.make(t, authority)];
  const move = new TestMove(from, to, [source.pid, target.pid]);
  assert.deepEqual(await published(from), { ...side('source', nothing), ...side('target', nothing) });

  await move.open([0, 49_152]);
  const name = `${move.uid}-49152-source.sock`;
  const [there, back] = [randomBytes(3_000_000), randomBytes(70_000)];
  await target.serve(target.socket(name), (socket) => {
    let got = 0;
    socket.on('data', (data: Buffer) => {
      got += data.length;
      if (got === there.length) socket.write(back);
    });
  });
  const socket = connect(source.socket(name)).resume();
  await once(socket, 'connect');
  let rate = 0;
  socket.write(there);
  const carried = there.length + back.length;
  for (const [node, which, other] of [
    [from, 'source', 'target'],
    [to, 'target', 'source'],
  ] as const) {
    await eventually(async () => {
      const seen = await published(node);
      rate = Math.max(rate, seen[`${which} bytes_per_second`] ?? 0);
      assert.deepEqual(seen, { ...side(which, [1, 1, carried, 0, 0]), ...side(other, nothing) });
    }, 30_000);
  }
  assert.ok(rate > 0 && rate < carried * 10, `${rate} bytes a second`);

  const stranger = connect(move.port(0), '127.0.0.1');
  stranger.end('no TLS at all');
  await closed(stranger);
  await eventually(async () => assert.equal((await published(to))['target refused'], 1), 30_000);

  await Promise.all([from.proxies.closeSource(move.uid), to.proxies.closeTarget(move.uid), closed(socket)]);
  for (const node of [from, to]) {
    assert.deepEqual(await published(node), { ...side('source', nothing), ...side('target', nothing) });
  }
});
