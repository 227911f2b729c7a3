import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FiguresService } from '../../../../../src/agent/serve/figures/index.ts';
import type { GuestFigures, VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { domainStatsJson } from '../../../../fixtures/domain-stats.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const vmi: VirtualMachineInstance = {
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachineInstance',
  metadata: { namespace: 'default', name: 'vm1', uid: 'u' },
  spec: { domain: {} },
};

function makeService(stats: () => Promise<string>) {
  const clock = new FakeClock();
  const asked: string[] = [];
  const service = new FiguresService(
    { nodeName: 'node1' },
    {
      vmis: { get: (key) => (key === 'default/vm1' ? vmi : undefined) },
      launchers: {
        find: ({ metadata }) => ({
          domainStats: () => {
            asked.push(metadata.name);
            return stats();
          },
        }),
      },
      clock,
    },
  );
  return { service, clock, asked };
}

test('what a launcher tells becomes figures in bytes and seconds', async () => {
  const { service } = makeService(async () => domainStatsJson());
  const answer = await service.answer('GET', '/figures/default/vm1');
  assert.equal(answer?.httpStatus, 200);
  const figures = answer?.body as GuestFigures;
  assert.deepEqual(
    { ...figures, disks: figures.disks.slice(0, 1) },
    {
      apiVersion: 'why.virt-handler/v1',
      kind: 'Figures',
      node: 'node1',
      at: '2026-01-02T03:00:00.000Z',
      uid: 'u',
      cpuSeconds: 12.5,
      vcpus: 2,
      memory: { totalBytes: 4096, usedBytes: 0, residentBytes: 5120 },
      disks: figures.disks.slice(0, 1),
      interfaces: [{ name: 'default', receivedBytes: 100, sentBytes: 200 }],
    },
  );
  assert.ok(figures.disks.every(({ readBytes, writtenBytes }) => readBytes > 0 && writtenBytes > 0));
});

test('many who look at once cost the launcher one question, and a moment later another', async () => {
  const { service, clock, asked } = makeService(async () => domainStatsJson());
  await Promise.all(Array.from({ length: 5 }, () => service.answer('GET', '/figures/default/vm1')));
  assert.deepEqual(asked, ['vm1']);
  clock.advance(1_000);
  await service.answer('GET', '/figures/default/vm1');
  assert.deepEqual(asked, ['vm1', 'vm1']);
});

test('a VM that is not here, one whose guest vanishes, and a launcher that gives nonsense are told in words', async () => {
  const answerOf = async (stats: () => Promise<string>, name = 'vm1') => {
    const answer = await makeService(stats).service.answer('GET', `/figures/default/${name}`);
    return [answer?.httpStatus, answer?.body && 'message' in answer.body ? answer.body.message : ''];
  };
  assert.deepEqual(await answerOf(async () => domainStatsJson(), 'other'), [
    404,
    'default/other has no guest on node node1 now',
  ]);
  assert.deepEqual(await answerOf(async () => ''), [404, 'default/vm1 has no guest now']);
  assert.match(String(await answerOf(async () => '[1]')), /^503,the launcher of default\/vm1 gives no figures: /);
  const failing = () => Promise.reject(new Error('it hangs'));
  assert.deepEqual(await answerOf(failing), [503, 'the launcher of default/vm1 gives no figures: it hangs']);
});

test('what is none of its addresses is left to others; a name that is none is refused', async () => {
  const { service, asked } = makeService(async () => domainStatsJson());
  assert.equal(service.answer('GET', '/why'), undefined);
  assert.equal(service.answer('POST', '/figures/default/vm1'), undefined);
  for (const target of [
    '/figures/',
    '/figures/default',
    '/figures/default/vm1/more',
    '/figures/a b/../c',
    '/figures/%zz/a',
  ]) {
    const answer = await service.answer('GET', target);
    assert.ok([400, 404].includes(answer?.httpStatus ?? 0), `${target}: ${answer?.httpStatus}`);
  }
  assert.deepEqual(asked, []);
});
