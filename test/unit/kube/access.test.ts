import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { loadKubeAccess } from '../../../src/kube/index.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'kube-access-'));
});
after(() => rm(dir, { recursive: true, force: true }));

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
}

async function kubeconfig(name: string, { cluster = {}, user = {} }: Parts): Promise<string> {
  const file = path.join(dir, name);
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://10.0.0.1:6443/base/', ...cluster } }],
    users: [{ name: 'u', user }],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

test('a kubeconfig gives server, CA and token', async () => {
  const file = await kubeconfig('token', {
    cluster: { 'certificate-authority-data': base64('ca pem'), 'tls-server-name': 'kube' },
    user: { token: 'secret' },
  });
  const access = await loadKubeAccess({ kubeconfig: file });
  assert.equal(access.server, 'https://10.0.0.1:6443/base');
  assert.equal(String(access.ca), 'ca pem');
  assert.equal(access.tlsServerName, 'kube');
  assert.equal(access.insecureSkipTlsVerify, false);
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer secret');
});

test('a token is also used with a server without TLS', async () => {
  const file = await kubeconfig('plain', { cluster: { server: 'http://127.0.0.1:8080' }, user: { token: 'secret' } });
  const access = await loadKubeAccess({ kubeconfig: file });
  assert.equal(access.server, 'http://127.0.0.1:8080');
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer secret');
});

test('a client certificate, basic auth and skipped verification are taken from a kubeconfig', async () => {
  const file = await kubeconfig('certificate', {
    cluster: { 'insecure-skip-tls-verify': true },
    user: {
      'client-certificate-data': base64('cert pem'),
      'client-key-data': base64('key pem'),
      username: 'me',
      password: 'pw',
    },
  });
  const access = await loadKubeAccess({ kubeconfig: file });
  assert.equal(access.insecureSkipTlsVerify, true);
  const { cert, key, headers } = await access.credentials.current();
  assert.deepEqual([String(cert), String(key)], ['cert pem', 'key pem']);
  assert.equal(headers.authorization, `Basic ${base64('me:pw')}`);
});

test('an exec plugin is run for its token', async () => {
  const plugin = path.join(dir, 'plugin.sh');
  const answer = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { token: 'from-plugin' },
  };
  await writeFile(plugin, `#!/bin/sh\necho '${JSON.stringify(answer)}'\n`);
  await chmod(plugin, 0o755);
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: plugin, interactiveMode: 'Never' };
  const access = await loadKubeAccess({ kubeconfig: await kubeconfig('exec', { user: { exec } }) });
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer from-plugin');
});

test('an exec plugin that fails is BAD_CONFIG with its words', async () => {
  const plugin = path.join(dir, 'broken.sh');
  await writeFile(plugin, '#!/bin/sh\necho "please log in" >&2\nexit 1\n');
  await chmod(plugin, 0o755);
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: plugin, interactiveMode: 'Never' };
  const file = await kubeconfig('exec-broken', { user: { exec } });
  await assert.rejects(loadKubeAccess({ kubeconfig: file }), { code: 'BAD_CONFIG', message: /please log in/ });
});

test('a token replaced in the kubeconfig is used after the old one was refused', async () => {
  const access = await loadKubeAccess({ kubeconfig: await kubeconfig('rotated', { user: { token: 'old' } }) });
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer old');
  await kubeconfig('rotated', { user: { token: 'new' } });
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer old');
  assert.equal(access.credentials.invalidate(), true);
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer new');
});

test('--master wins over the server of the kubeconfig, and alone needs no credentials', async () => {
  const file = await kubeconfig('master', { user: { token: 'secret' } });
  const both = await loadKubeAccess({ kubeconfig: file, master: 'http://127.0.0.1:8001/' });
  assert.equal(both.server, 'http://127.0.0.1:8001');
  assert.equal((await both.credentials.current()).headers.authorization, 'Bearer secret');
  const alone = await loadKubeAccess({ master: 'http://127.0.0.1:8001' });
  assert.deepEqual(await alone.credentials.current(), { headers: {} });
});

const broken: readonly (readonly [string, string, RegExp])[] = [
  ['no YAML', '{]', /kubeconfig .*bad-0/],
  ['no context', '{"apiVersion":"v1","kind":"Config"}', /names no cluster/],
  ['empty', '', /kubeconfig .*bad-2/],
  [
    'a server that is no URL',
    '{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"ftp://x"}}],"users":[]}',
    /ftp:\/\/x/,
  ],
];
for (const [index, [what, text, message]] of broken.entries()) {
  test(`a kubeconfig with ${what} is BAD_CONFIG`, async () => {
    const file = path.join(dir, `bad-${index}`);
    await writeFile(file, text);
    await assert.rejects(loadKubeAccess({ kubeconfig: file }), { code: 'BAD_CONFIG', message });
  });
}

test('a kubeconfig that is not there is BAD_CONFIG with its path', async () => {
  await assert.rejects(loadKubeAccess({ kubeconfig: '/nonexistent/config' }), {
    code: 'BAD_CONFIG',
    message: /\/nonexistent\/config/,
  });
});

test('outside of a pod, without any flag, the message says what to give', async () => {
  await assert.rejects(loadKubeAccess({ kubeconfig: '', master: '' }), {
    code: 'BAD_CONFIG',
    message: /--kubeconfig nor --master/,
  });
});

test('in a pod the service account is used, and a new token after a 401', async () => {
  const tokenFile = path.join(dir, 'sa-token');
  const caFile = path.join(dir, 'sa-ca');
  await writeFile(tokenFile, 'first\n');
  await writeFile(caFile, 'ca');
  const access = await loadKubeAccess({ inCluster: { host: 'fd00::1', port: '443', tokenFile, caFile } });
  assert.equal(access.server, 'https://[fd00::1]:443');
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer first');
  await writeFile(tokenFile, 'second\n');
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer first');
  access.credentials.invalidate();
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer second');
  await rm(tokenFile);
  access.credentials.invalidate();
  assert.equal((await access.credentials.current()).headers.authorization, 'Bearer second');
});

test('in a pod without a token the message names the file', async () => {
  const inCluster = { host: '10.0.0.1', tokenFile: path.join(dir, 'none'), caFile: path.join(dir, 'none') };
  await assert.rejects(loadKubeAccess({ inCluster }), { code: 'BAD_CONFIG', message: /none/ });
});
