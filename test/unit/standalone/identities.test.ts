import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { type NodePaths, nodePaths } from '../../../src/standalone/index.ts';
import { handlerRules, type Identity, loadIdentities } from '../../../src/standalone/supervisor/identities.ts';

async function withPaths(work: (paths: NodePaths) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(path.join(tmpdir(), 'identities-'));
  try {
    const paths = nodePaths(dir);
    await mkdir(path.join(paths.apiDir, 'tokens'), { recursive: true });
    await work(paths);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const byUser = (identities: readonly Identity[]) => new Map(identities.map((identity) => [identity.user, identity]));
const tokens = (identities: readonly Identity[]) => new Map(identities.map(({ user, token }) => [user, token]));

test('the rights of virt-handler are those of the manifest for a real cluster', async () => {
  const documents = parseAllDocuments(await readFile('daemonset/base/rbac.yaml', 'utf8')).map((item) => item.toJS());
  const role = documents.find(({ kind }) => kind === 'ClusterRole');
  assert.deepEqual(handlerRules, role.rules);
});

describe('identities of the node', () => {
  test('user, controller, agent and pod runner are four users with four tokens; none is in system:masters', () =>
    withPaths(async (paths) => {
      const identities = await loadIdentities(paths, 'one');
      assert.deepEqual([...byUser(identities).keys()].sort(), [
        'admin',
        'system:node:one',
        'system:serviceaccount:kubevirt:kubevirt-controller',
        'system:serviceaccount:kubevirt:kubevirt-handler',
      ]);
      for (const part of ['token', 'kubeconfig'] as const) {
        assert.equal(new Set(identities.map((identity) => identity[part])).size, 4);
      }
      assert.ok(identities.every(({ groups = [] }) => !groups.includes('system:masters')));
      assert.equal(byUser(identities).get('admin')?.kubeconfig, paths.kubeconfig);
    }));

  test('only the agent has rules', () =>
    withPaths(async (paths) => {
      const limited = (await loadIdentities(paths, 'one')).filter(({ rules }) => rules !== undefined);
      assert.deepEqual(
        limited.map(({ user, rules }) => [user, rules]),
        [['system:serviceaccount:kubevirt:kubevirt-handler', handlerRules]],
      );
    }));

  test('tokens stay from start to start, in files of their owner only', () =>
    withPaths(async (paths) => {
      const first = tokens(await loadIdentities(paths, 'one'));
      assert.deepEqual(tokens(await loadIdentities(paths, 'one')), first);
      for (const file of ['token', 'tokens/virt-controller', 'tokens/virt-handler', 'tokens/node']) {
        assert.equal((await stat(path.join(paths.apiDir, file))).mode & 0o777, 0o600, file);
      }
    }));

  test("a state directory with one token for everybody: it goes on as the administrator's, and is closed to others", () =>
    withPaths(async (paths) => {
      const old = 'a-token-that-served-everybody-until-now';
      await writeFile(path.join(paths.apiDir, 'token'), `${old}\n`, { mode: 0o644 });
      const found = tokens(await loadIdentities(paths, 'one'));
      assert.equal(found.get('admin'), old);
      assert.equal([...found.values()].filter((token) => token === old).length, 1);
      assert.equal((await stat(path.join(paths.apiDir, 'token'))).mode & 0o777, 0o600);
    }));

  for (const [what, text] of [
    ['empty', ''],
    ['torn', 'short'],
    ['two lines', `${'a'.repeat(32)}\n${'b'.repeat(32)}`],
    ['with a blank', `${'a'.repeat(20)} ${'b'.repeat(20)}`],
  ] as const) {
    test(`a token file that is ${what} is replaced, the others stay`, () =>
      withPaths(async (paths) => {
        const first = tokens(await loadIdentities(paths, 'one'));
        await writeFile(path.join(paths.apiDir, 'tokens/virt-handler'), text);
        const second = tokens(await loadIdentities(paths, 'one'));
        const changed = [...first].filter(([user, token]) => second.get(user) !== token).map(([user]) => user);
        assert.deepEqual(changed, ['system:serviceaccount:kubevirt:kubevirt-handler']);
        assert.match(second.get('system:serviceaccount:kubevirt:kubevirt-handler') ?? '', /^[\w-]{32}$/);
      }));
  }

  test("the agent never has the administrator's token: a copied file is replaced", () =>
    withPaths(async (paths) => {
      const first = tokens(await loadIdentities(paths, 'one'));
      await writeFile(path.join(paths.apiDir, 'tokens/virt-handler'), first.get('admin') ?? '');
      const second = tokens(await loadIdentities(paths, 'one'));
      assert.equal(second.get('admin'), first.get('admin'));
      assert.equal(new Set(second.values()).size, 4);
    }));
});
