import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeList } from '../../../src/web/describe-list.ts';
import type { NodeRow, WebBackend } from '../../../src/web/index.ts';

test('an agent that has just been started is no alarm; one that is not ready is, with its reasons', () => {
  const noticeOf = (...rows: readonly NodeRow[]) =>
    describeList({ nodeName: 'n', vms: {}, nodes: { rows: () => rows } } as unknown as WebBackend, 'act').notice;
  const node = (agent: NodeRow['agent'], reason?: string): NodeRow => ({
    ...{ name: 'n', agent, isCordoned: false },
    ...(reason && { reason }),
  });
  assert.equal(noticeOf(node('ready')), undefined);
  assert.equal(
    noticeOf(node('not-ready', 'AgentStarting: it has not read all; CapabilityFileMissing: /x/y.xml')),
    'the agent of n is starting: machines that run go on, and new ones start when it is ready',
  );
  assert.match(noticeOf(node('not-ready', 'CapabilityFileMissing: /x')) ?? '', /not ready \(Capability.*until it is/);
  assert.match(noticeOf(node('away')) ?? '', /does not answer/);
  assert.equal(noticeOf(node('away'), node('ready')), undefined);
});
