import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { ensureKubevirtCertificates } from '../../../src/certificates/index.ts';
import {
  agentOf,
  forgetAgentAddress,
  knownAgents,
  memberName,
  memberPaths,
  type NodePaths,
  nodePaths,
  rememberAgentAddress,
  vmPath,
} from '../../../src/standalone/index.ts';

describe('the agents of several nodes on one machine', () => {
  let paths: NodePaths;

  beforeEach(async () => {
    paths = nodePaths(await mkdtemp(path.join(tmpdir(), 'agents-')));
    await ensureKubevirtCertificates(paths.certificatesDir);
  });
  afterEach(() => rm(paths.stateDir, { recursive: true, force: true }));

  async function remember(...indices: number[]): Promise<void> {
    for (const index of indices) {
      const host = `127.0.0.${index}`;
      const member = memberPaths(paths, index);
      await rememberAgentAddress(member, { host, port: 18_000 + index, node: memberName('box', index) });
    }
  }

  const neverAsked = () => Promise.reject(new Error('asked where the VMI is'));

  test('the first node keeps every path of a single one, and no two nodes share what is an agent’s own', () => {
    assert.deepEqual(memberPaths(paths, 1), paths);
    const [first, second, third] = [1, 2, 3].map((index) => memberPaths(paths, index));
    for (const own of ['podsDir', 'shareDir', 'privateDir', 'agentSocket', 'agentAddress', 'kubeletDir'] as const) {
      assert.equal(new Set([first?.[own], second?.[own], third?.[own]]).size, 3, own);
    }
    assert.notEqual(second?.kubeconfigs['virt-handler'], paths.kubeconfigs['virt-handler']);
    assert.equal(second?.kubeconfigs.admin, paths.kubeconfigs.admin);
    assert.equal(second?.claimsDir, paths.claimsDir);
    assert.deepEqual([memberName('box', 1), memberName('box', 2)], ['box', 'box-2']);
  });

  test('are listed in the order of their numbers, and a node that is no more is forgotten', async () => {
    await remember(10, 2, 1);
    await writeFile(path.join(paths.runDir, 'agent-x.json'), 'not one of them');
    assert.deepEqual(
      (await knownAgents(paths)).map(({ node }) => node),
      ['box', 'box-2', 'box-10'],
    );
    await forgetAgentAddress(memberPaths(paths, 2));
    assert.deepEqual(
      (await knownAgents(paths)).map(({ node, port }) => [node, port]),
      [
        ['box', 18_001],
        ['box-10', 18_010],
      ],
    );
  });

  test('one alone is asked without looking where the VMI is, also when an older version wrote its address', async () => {
    await writeFileIn(paths.agentAddress, '{"host":"127.0.0.1","port":18186}');
    const target = await agentOf(paths, neverAsked)(vmPath('default', 'demo'));
    assert.deepEqual([target.host, target.port], ['127.0.0.1', 18_186]);
    assert.equal(target.ca, await readFile(path.join(paths.certificatesDir, 'ca.crt'), 'utf8'));
  });

  test('of several the one is asked that has the VMI, each time anew', async () => {
    await remember(1, 2);
    const asked: unknown[] = [];
    let node: string | undefined = 'box-2';
    const find = agentOf(paths, async (vmi) => {
      asked.push(vmi);
      return node;
    });
    const pathOf = `${vmPath('a b', 'demo')}/console?access=take`;
    assert.equal((await find(pathOf)).port, 18_002);
    node = 'box';
    assert.equal((await find(pathOf)).port, 18_001);
    assert.deepEqual(asked[0], { namespace: 'a b', name: 'demo' });
    node = undefined;
    assert.equal((await find(pathOf)).port, 18_001, 'any agent says that it knows no such VMI');
    assert.equal((await agentOf(paths, neverAsked)('/healthz')).port, 18_001);
    node = 'elsewhere';
    await assert.rejects(find(pathOf), {
      code: 'AGENT_AWAY',
      message: /is on node elsewhere, which does not run here/,
    });
  });

  test('without any it is said how to start the node', async () => {
    await assert.rejects(agentOf(paths, neverAsked)(), { code: 'NOT_RUNNING', message: /no node runs on/ });
  });

  async function writeFileIn(file: string, text: string): Promise<void> {
    await remember(1);
    await writeFile(file, text);
  }
});
