import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import {
  ApiProgram,
  addUser,
  listUsers,
  type NodePaths,
  nodePaths,
  revokeUser,
  type UserWish,
} from '../../../src/standalone/index.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';

const wish: Omit<UserWish, 'user'> = { readOnly: false, lastsMs: undefined, output: undefined };
const vm = (name: string) => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachine',
  metadata: { name },
  spec: { runStrategy: 'Halted', template: { spec: { domain: { devices: {}, memory: { guest: '64Mi' } } } } },
});
const vmsOf = (namespace: string) => `/apis/kubevirt.io/v1/namespaces/${namespace}/virtualmachines`;
const streamsOf = (namespace: string) =>
  `/apis/subresources.kubevirt.io/v1/namespaces/${namespace}/virtualmachineinstances`;
const whoAmI = '/apis/authentication.k8s.io/v1/selfsubjectreviews';

describe('ordinary users of the node’s API', () => {
  let paths: NodePaths;
  let program: ApiProgram;
  const start = async () => {
    program = new ApiProgram({ paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 }, { log: silentLogger });
    await program.start();
  };
  const admin = () => ApiClient.fromKubeconfig(paths.kubeconfig);
  const fileOf = (user: string) => path.join(paths.stateDir, `${user}.kubeconfig`);
  const add = async (user: string, more: Partial<UserWish> = {}) => {
    const { said } = await addUser(paths, { ...wish, user, output: fileOf(user), ...more }, new Date());
    return { said, client: ApiClient.fromKubeconfig(fileOf(user)) };
  };
  const kubectl = (user: string) => new Kubectl(fileOf(user), path.join(paths.stateDir, 'home', user));

  before(async () => {
    paths = nodePaths(await mkdtemp(path.join(tmpdir(), 'users-')));
    await start();
    for (const name of ['team-a', 'team-b']) {
      await admin().post('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
      await admin().post(vmsOf(name), vm('old'));
    }
  });
  after(async () => {
    await program.stop();
    await rm(paths.stateDir, { recursive: true, force: true });
  });

  test('a file that cannot be written takes no old token away, and makes no user', async () => {
    const { client } = await add('gina');
    const output = path.join(fileOf('gina'), 'below-a-file');
    await assert.rejects(add('gina', { output }), { code: 'NO_PERMISSION', message: /nothing was changed/ });
    assert.equal((await client.get(vmsOf('team-a'))).status, 200);
    await assert.rejects(add('hans', { output }), { code: 'NO_PERMISSION' });
    assert.ok(!(await readdir(paths.usersDir)).includes('hans.json'));
  });

  test('beside the file nothing of the user is touched, and nothing is left', async () => {
    const own = `${fileOf('olga')}.new`;
    await writeFile(own, 'mine');
    await add('olga');
    assert.equal(await readFile(own, 'utf8'), 'mine');
    const beside = (await readdir(paths.stateDir)).filter((name) => name.includes('olga.kubeconfig'));
    assert.deepEqual(beside.sort(), ['olga.kubeconfig', 'olga.kubeconfig.new']);
    await revokeUser(paths, 'olga');
  });

  test('a user of one namespace makes VMs there, and sees nothing of another', async () => {
    const { client, said } = await add('anna', { namespace: 'team-a' });
    assert.match(said, /anna may make and use VMs in the namespace team-a only/);
    assert.ok(!(await readdir(paths.stateDir)).includes('anna.kubeconfig.new'));
    assert.equal((await stat(fileOf('anna'))).mode & 0o777, 0o600);
    assert.equal((await client.post(vmsOf('team-a'), vm('mine'))).status, 201);
    assert.equal((await client.get(`${vmsOf('team-a')}/old`)).status, 200);
    const refused = [
      await client.get(`${vmsOf('team-b')}/old`),
      await client.get(vmsOf('team-b')),
      await client.get('/apis/kubevirt.io/v1/virtualmachines'),
      await client.get('/apis/kubevirt.io/v1/virtualmachines?watch=1'),
      await client.post(vmsOf('team-b'), vm('theirs')),
      await client.delete(`${vmsOf('team-b')}/old`),
      await client.delete(vmsOf('team-b')),
      await client.get(`${streamsOf('team-b')}/old/console`),
      await client.get('/api/v1/namespaces'),
      await client.get('/api/v1/namespaces/team-b'),
      await client.get('/api/v1/nodes'),
      await client.post('/api/v1/namespaces', { metadata: { name: 'more' } }),
      await client.delete('/api/v1/namespaces/team-a'),
      await client.post('/api/v1/namespaces/team-a/pods', {}),
      await client.get('/api/v1/namespaces/kubevirt/secrets'),
    ];
    assert.deepEqual(
      refused.map(({ status }) => status),
      refused.map(() => 403),
    );
    assert.equal((await client.get('/api/v1/namespaces/team-a')).status, 200);
    // The right to upload is none to ask what others may: that version is not there.
    const upload = '/apis/upload.cdi.kubevirt.io/v1/namespaces/team-a/uploadtokenrequests';
    const asked = {
      kind: 'UploadTokenRequest',
      spec: { user: 'admin', nonResourceAttributes: { verb: 'get', path: '/' } },
    };
    assert.equal((await client.post(upload, asked)).status, 404);
    const foreign = { ...vm('sneaked'), metadata: { name: 'sneaked', namespace: 'team-b' } };
    assert.notEqual((await client.post(vmsOf('team-a'), foreign)).status, 201);
    assert.equal((await admin().get(`${vmsOf('team-b')}/sneaked`)).status, 404);
  });

  test('who has all namespaces has not those of the node itself', async () => {
    const { client } = await add('everywhere');
    const maps = (namespace: string) => `/api/v1/namespaces/${namespace}/configmaps`;
    const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kubevirt-ca' } };
    assert.equal((await client.post(maps('team-b'), map)).status, 201);
    const refused = [
      await client.post(maps('kubevirt'), map),
      await client.delete(`${maps('kubevirt')}/kubevirt-ca`),
      await client.get('/api/v1/namespaces/kubevirt/secrets'),
      await client.get('/api/v1/secrets'),
      await client.delete('/api/v1/configmaps'),
      await client.put('/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt', {}),
    ];
    assert.deepEqual(
      refused.map(({ status }) => status),
      refused.map(() => 403),
    );
  });

  test('who may look only changes nothing, and opens no console, screen or port', async () => {
    const { client } = await add('look', { readOnly: true });
    assert.equal((await client.get('/apis/kubevirt.io/v1/virtualmachines')).status, 200);
    const old = `${vmsOf('team-a')}/old`;
    const power = `/apis/subresources.kubevirt.io/v1/namespaces/team-a/virtualmachines/old`;
    const refused = [
      await client.post(vmsOf('team-a'), vm('mine')),
      await client.patch(old, 'merge', { spec: { runStrategy: 'Always' } }),
      await client.patch(`${old}/status`, 'merge', { status: {} }),
      await client.delete(old),
      await client.put(`${power}/start`, {}),
      await client.get(`${streamsOf('team-a')}/old/console`),
      await client.get(`${streamsOf('team-a')}/old/vnc`),
      await client.get(`${streamsOf('team-a')}/old/vnc/screenshot`),
      await client.get(`${streamsOf('team-a')}/old/portforward/22`),
      await client.get('/api/v1/namespaces/team-a/secrets'),
    ];
    assert.deepEqual(
      refused.map(({ status }) => status),
      refused.map(() => 403),
    );
    const asAdmin = await client.get(old, { headers: { 'impersonate-user': 'admin' } });
    assert.equal(asAdmin.status, 403);
  });

  test('kubectl auth can-i says what is true, and whose token it is', async () => {
    const { client } = await add('bert', { namespace: 'team-a' });
    const mine = kubectl('bert');
    const questions: [string[], boolean][] = [
      [['create', 'vms', '-n', 'team-a'], true],
      [['create', 'vms', '-n', 'team-b'], false],
      [['list', 'vms', '--all-namespaces'], false],
      [['get', 'secrets', '-n', 'team-a'], true],
      [['get', 'secrets', '-n', 'team-b'], false],
      [['create', 'pods', '-n', 'team-a'], false],
      [['*', '*'], false],
    ];
    for (const [question, answer] of questions) {
      const { stdout } = await mine.try(['auth', 'can-i', ...question]);
      assert.match(stdout, answer ? /^yes\b/ : /^no\b/, question.join(' '));
    }
    const attributes = { verb: 'get', group: 'subresources.kubevirt.io', resource: 'virtualmachineinstances' };
    const may = async (namespace: string) => {
      const spec = { resourceAttributes: { ...attributes, subresource: 'console', namespace } };
      const { body } = await client.post('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', { spec });
      return body.status.allowed;
    };
    assert.deepEqual([await may('team-a'), await may('team-b'), await may('')], [true, false, false]);
    const rules = await mine.run(['auth', 'can-i', '--list', '-n', 'team-b']);
    assert.doesNotMatch(rules, /virtualmachines\.kubevirt\.io/);
    assert.match(await mine.run(['auth', 'can-i', '--list', '-n', 'team-a']), /virtualmachines\.kubevirt\.io/);
    const { body } = await client.post(whoAmI, {});
    assert.deepEqual(body.status.userInfo, { username: 'bert', groups: ['system:authenticated'] });
    assert.equal(
      (await mine.run(['get', 'vms', '-o', 'name'])).includes('old'),
      true,
      'its namespace is the usual one',
    );
  });

  test('a revoked user is let in no more, and what was open ends at once', async () => {
    const { client } = await add('carl');
    const watch = await client.watch('/apis/kubevirt.io/v1/virtualmachines?watch=1');
    await watch.take(1);
    const ended = eventually(() => assert.equal(watch.response.destroyed, true));
    watch.response.on('error', () => undefined);
    watch.response.resume();
    assert.match(await revokeUser(paths, 'carl'), /carl is no user of this node any more/);
    await ended;
    assert.equal((await client.get('/apis')).status, 401);
    await assert.rejects(revokeUser(paths, 'carl'), { code: 'NOT_FOUND', message: /no user carl/ });
  });

  test('made again a user has a new token, and the old one is worth nothing', async () => {
    const { client: before } = await add('dora');
    const { client: now, said } = await add('dora', { readOnly: true });
    assert.match(said, /token of before is worth nothing now/);
    assert.deepEqual([(await before.get('/apis')).status, (await now.get('/apis')).status], [401, 200]);
    assert.equal((await now.post(vmsOf('team-a'), vm('other'))).status, 403);
  });

  test('users outlive a restart, revoked ones do not come back, and no token is on disk', async () => {
    const { client } = await add('emil', { namespace: 'team-a' });
    await add('gone');
    await program.stop();
    assert.match(await revokeUser(paths, 'gone'), /no user/);
    await start();
    const again = new ApiClient(admin().server, client.token, client.ca);
    assert.equal((await again.get(vmsOf('team-a'))).status, 200);
    const gone = new ApiClient(admin().server, ApiClient.fromKubeconfig(fileOf('gone')).token, client.ca);
    assert.equal((await gone.get('/apis')).status, 401);
    for (const file of await readdir(paths.usersDir)) {
      const where = path.join(paths.usersDir, file);
      assert.equal((await stat(where)).mode & 0o777, 0o600);
      assert.ok(!(await readFile(where, 'utf8')).includes(client.token));
    }
  });

  test('a token that is over lets in no more, and is listed so', async () => {
    const { client } = await add('fritz', { lastsMs: 1_500 });
    assert.equal((await client.get('/apis')).status, 200);
    await eventually(async () => assert.equal((await client.get('/apis')).status, 401));
    const table = await listUsers(paths, 'table', new Date());
    assert.match(table, /^fritz +\(all\) +edit .* \(over\)$/m);
    const names = await listUsers(paths, 'name', new Date());
    assert.ok(names.split('\n').includes('fritz'));
    assert.doesNotMatch(await listUsers(paths, 'json', new Date()), /digest/);
  });

  for (const file of ['torn.json', 'admin.json', 'copy.json']) {
    test(`a file ${file} that no command wrote lets nobody in, and is named`, async () => {
      await add('hugo');
      const good = JSON.parse(await readFile(path.join(paths.usersDir, 'hugo.json'), 'utf8'));
      const text = file === 'torn.json' ? '{"user":' : JSON.stringify({ ...good, digest: 'a'.repeat(64) });
      await writeFile(path.join(paths.usersDir, file), text);
      assert.match(await listUsers(paths, 'table', new Date()), new RegExp(`^${file} .*damaged`, 'm'));
      assert.equal((await admin().get('/apis')).status, 200);
      await rm(path.join(paths.usersDir, file));
    });
  }

  const wrong: [user: string, more: Partial<UserWish>, RegExp][] = [
    ['admin', {}, /"admin" is the user of this node/],
    ['system:masters', {}, /names with system: are those of Kubernetes/],
    ['system:serviceaccount:kubevirt:kubevirt-controller', {}, /names with system:/],
    ['a/b', {}, /is no name of a user/],
    ['../../etc/passwd', {}, /is no name of a user/],
    ['', {}, /is no name of a user/],
    ['.hidden', {}, /is no name of a user/],
    ['x'.repeat(64), {}, /is no name of a user/],
    ['a\nb', {}, /is no name of a user/],
    ['ok', { namespace: 'no-such-team' }, /there is no namespace no-such-team: kubectl create namespace/],
    ['ok', { namespace: 'kubevirt' }, /the namespace kubevirt is the node's own/],
    ['ok', { namespace: '../x' }, /is no name of a namespace/],
    ['ok', { namespace: '' }, /is no name of a namespace/],
  ];
  for (const [user, more, message] of wrong) {
    test(`${JSON.stringify({ user: user.slice(0, 40), ...more })} is refused`, async () => {
      await assert.rejects(addUser(paths, { ...wish, user, ...more }, new Date()), { message });
      assert.ok(!(await readdir(paths.usersDir)).includes('ok.json'));
    });
  }
});
