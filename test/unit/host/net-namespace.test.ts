import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { NetNamespace, runInNamespace } from '../../../src/host/index.ts';
import { withoutPods } from '../../fixtures/pod-namespace.ts';

let count = 0;

function namedNamespace(t: TestContext): string {
  const name = `nn-${process.pid}-${count++}`;
  execFileSync('ip', ['netns', 'add', name]);
  t.after(() => execFileSync('ip', ['netns', 'delete', name], { stdio: 'ignore' }));
  execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
  execFileSync('ip', ['-n', name, 'address', 'add', '198.51.100.7/32', 'dev', 'lo']);
  return `/run/netns/${name}`;
}

async function opened(t: TestContext, file = namedNamespace(t)): Promise<NetNamespace> {
  const namespace = await NetNamespace.at(file);
  t.after(() => namespace.close());
  return namespace;
}

const here = () => statSync('/proc/thread-self/ns/net').ino;
const codeOf = (code: string) => (error: unknown) => error instanceof Error && 'code' in error && error.code === code;
const hasAddress = () => networkInterfaces().lo?.some(({ address }) => address === '198.51.100.7') === true;

suite('network namespaces', { skip: withoutPods }, () => {
  test('synchronous work is done in the namespace, and everything after it at home', async (t) => {
    const file = namedNamespace(t);
    const namespace = await opened(t, file);
    const [home, open] = [here(), readdirSync('/proc/self/fd').length];
    assert.equal(namespace.run(here), statSync(file).ino);
    assert.equal(namespace.run(hasAddress), true);
    assert.equal(here(), home);
    assert.equal(hasAddress(), false);
    assert.equal(readdirSync('/proc/self/fd').length, open);
  });

  test('files of /proc/sys/net are those of the namespace', async (t) => {
    const namespace = await opened(t);
    const file = '/proc/sys/net/ipv4/ip_unprivileged_port_start';
    const before = readFileSync(file, 'utf8');
    namespace.run(() => writeFileSync(file, '77'));
    assert.equal(
      namespace.run(() => readFileSync(file, 'utf8')),
      '77\n',
    );
    assert.equal(readFileSync(file, 'utf8'), before);
  });

  test('work that throws comes back, too, and says what it said', async (t) => {
    const namespace = await opened(t);
    const home = here();
    const fails = () => {
      throw new Error('no luck');
    };
    assert.throws(() => namespace.run(fails), /no luck/);
    assert.equal(here(), home);
  });

  test('one inside of another comes back to where it was', async (t) => {
    const [outer, inner] = [await opened(t), await opened(t)];
    const home = here();
    const seen = outer.run(() => [here(), inner.run(here), here()]);
    assert.equal(seen[0], seen[2]);
    assert.notEqual(seen[0], seen[1]);
    assert.equal(here(), home);
  });

  test('work that goes on later is refused', async (t) => {
    const namespace = await opened(t);
    assert.throws(() => namespace.run(async () => 1), codeOf('NOT_SYNCHRONOUS'));
  });

  test('no thread of this program stays there', async (t) => {
    const file = namedNamespace(t);
    const namespace = await opened(t, file);
    namespace.run(() => {
      void import('node:fs/promises').then(({ stat }) => stat('/'));
    });
    await new Promise((resolve) => setImmediate(resolve));
    const threads = readdirSync('/proc/self/task').map((id) => statSync(`/proc/self/task/${id}/ns/net`).ino);
    assert.deepEqual(new Set(threads), new Set([here()]));
  });

  test('a program that is started begins there, and this one stays at home', async (t) => {
    const file = namedNamespace(t);
    const namespace = await opened(t, file);
    const home = here();
    const readlink = { program: 'readlink', args: ['/proc/self/ns/net'], input: '' };
    const text = await runInNamespace(namespace, readlink, new AbortController().signal);
    assert.equal(text.trim(), `net:[${statSync(file).ino}]`);
    assert.equal(here(), home);
  });

  test('a namespace whose last process ends stays usable until it is closed', async (t) => {
    const child = spawn('unshare', ['--net', 'sh', '-c', 'echo there; exec sleep 60'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    const namespace = await NetNamespace.ofProcess({ pid: Number(child.pid) });
    t.after(() => namespace.close());
    child.kill('SIGKILL');
    await once(child, 'close');
    assert.notEqual(namespace.run(here), here());
    await assert.rejects(NetNamespace.ofProcess({ pid: Number(child.pid) }), codeOf('ENDED'));
    namespace.close();
    assert.throws(() => namespace.run(here), /was closed/);
  });

  test('a pid that is another process’s by now is refused', async () => {
    const open = readdirSync('/proc/self/fd').length;
    await assert.rejects(NetNamespace.ofProcess({ pid: process.pid, startTime: '1' }), codeOf('ENDED'));
    assert.equal(readdirSync('/proc/self/fd').length, open);
  });

  test('a path that leads to anything else is refused', async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), 'netns-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    execFileSync('mkfifo', [path.join(dir, 'pipe')]);
    writeFileSync(path.join(dir, 'file'), '');
    for (const name of ['pipe', 'file', '.']) {
      await assert.rejects(NetNamespace.at(path.join(dir, name)), codeOf('NO_NAMESPACE'));
    }
    await assert.rejects(NetNamespace.at(path.join(dir, 'none')), codeOf('ENDED'));
    const other = await opened(t, '/proc/self/ns/uts');
    const home = here();
    assert.throws(() => other.run(here), codeOf('NO_NAMESPACE'));
    assert.equal(here(), home);
  });

  test('the machine’s own namespace is known as such', async (t) => {
    assert.equal((await opened(t)).isOfMachine, false);
    assert.equal((await opened(t, '/proc/self/ns/net')).isOfMachine, true);
    const own = await NetNamespace.ofProcess({ pid: process.pid });
    t.after(() => own.close());
    assert.equal(own.isOfMachine, true);
  });
});
