import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { suite, type TestContext, test } from 'node:test';
import { errorCode } from '../../../src/base/index.ts';
import {
  linkNamesIn,
  NetNamespace,
  readNetworkSetting,
  runInNamespace,
  writeNetworkSetting,
} from '../../../src/host/index.ts';
import { withoutPods } from '../../fixtures/pod-namespace.ts';

const never = new AbortController().signal;
let count = 0;

async function namespaceOf(t: TestContext): Promise<NetNamespace> {
  const name = `np-${process.pid}-${count++}`;
  execFileSync('ip', ['netns', 'add', name]);
  const namespace = await NetNamespace.at(`/run/netns/${name}`);
  t.after(() => {
    namespace.close();
    execFileSync('ip', ['netns', 'delete', name]);
  });
  return namespace;
}

const sh = (script: string, input = '') => ({ program: 'sh', args: ['-c', script], input });

/** Children of this process that have ended and were not waited for. */
function zombies(): string[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ').filter(Boolean);
  return children.filter((pid) => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1')));
}

function endsAs(code: string, words: RegExp) {
  return (error: Error & { code?: string }) => {
    assert.match(error.message, words);
    return error.code === code;
  };
}

suite('programs and settings in a network namespace', { skip: withoutPods }, () => {
  test('a program reads what it is given, and what it prints comes back', async (t) => {
    const namespace = await namespaceOf(t);
    const large = 'x'.repeat(300_000);
    assert.equal(await runInNamespace(namespace, sh('cat', large), never), large);
    assert.equal(await runInNamespace(namespace, sh('exec 0<&-; echo done', large), never), 'done\n');
  });

  test('it has nothing of this program’s environment, and not its namespace', async (t) => {
    const namespace = await namespaceOf(t);
    process.env.NOT_FOR_OTHERS = 'token';
    t.after(() => delete process.env.NOT_FOR_OTHERS);
    const printed = await runInNamespace(namespace, sh('env; ls -l /proc/self/fd'), never);
    assert.doesNotMatch(printed, /NOT_FOR_OTHERS|net:\[/);
  });

  test('it has the signals, the directory and the descriptors of a fresh program', async (t) => {
    const namespace = await namespaceOf(t);
    const script = 'grep -E "^Sig(Blk|Ign)" /proc/self/status; pwd; ls /proc/$$/fd';
    const asNodeStartsIt = execFileSync('sh', ['-c', script], { cwd: '/', encoding: 'utf8' });
    assert.equal(await runInNamespace(namespace, sh(script), never), asNodeStartsIt);
    assert.match(asNodeStartsIt, /SigIgn:\s+0+$/m);
  });

  test('of many at once each gets its own answer, and neither a descriptor nor a zombie is left', async (t) => {
    const namespace = await namespaceOf(t);
    await runInNamespace(namespace, sh('true'), never);
    const before = readdirSync('/proc/self/fd').length;
    const numbers = Array.from({ length: 40 }, (_, index) => index);
    const results = await Promise.allSettled(
      numbers.map((number) => runInNamespace(namespace, sh(`cat; exit ${number % 2}`, `${number}`), never)),
    );
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? result.value : errorCode(result.reason))),
      numbers.map((number) => (number % 2 === 0 ? `${number}` : 'FAILED')),
    );
    assert.equal(readdirSync('/proc/self/fd').length, before);
    assert.deepEqual(zombies(), []);
  });

  test('one that closes its streams is waited for', async (t) => {
    const namespace = await namespaceOf(t);
    const later = sh('exec >&- 2>&-; sleep 0.2; exit 3');
    await assert.rejects(runInNamespace(namespace, later, never), endsAs('FAILED', /code 3/));
  });

  test('what it refuses is an error with its words', async (t) => {
    const namespace = await namespaceOf(t);
    const said = endsAs('FAILED', /^sh: no such thing$/);
    await assert.rejects(runInNamespace(namespace, sh('echo no such thing >&2; exit 2'), never), said);
    await assert.rejects(runInNamespace(namespace, sh('exit 7'), never), endsAs('FAILED', /code 7/));
  });

  test('one that is missing, is killed, prints without end, or takes long', async (t) => {
    const namespace = await namespaceOf(t);
    const none = { program: 'no-such-program', args: [], input: '' };
    await assert.rejects(runInNamespace(namespace, none, never), endsAs('NOT_STARTED', /is it installed\?/));
    await assert.rejects(runInNamespace(namespace, sh('kill -9 $$'), never), endsAs('ENDED', /SIGKILL/));
    await assert.rejects(runInNamespace(namespace, sh('yes'), never), endsAs('TOO_LARGE', /more than/));
    const ending = new AbortController();
    const asleep = runInNamespace(namespace, sh('exec sleep 60'), ending.signal);
    ending.abort(new Error('it takes too long'));
    await assert.rejects(asleep, endsAs('ENDED', /it takes too long/));
    await assert.rejects(runInNamespace(namespace, sh('true'), ending.signal), endsAs('ENDED', /not begun/));
  });

  test('links and settings are those of the namespace', async (t) => {
    const namespace = await namespaceOf(t);
    await runInNamespace(
      namespace,
      { program: 'ip', args: ['-batch', '-'], input: 'link add a.b type veth peer name c\n' },
      never,
    );
    assert.deepEqual(linkNamesIn(namespace).sort(), ['a.b', 'c', 'lo']);
    const before = readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8');
    writeNetworkSetting(namespace, 'net/ipv4/ip_forward', '1');
    writeNetworkSetting(namespace, 'net/ipv4/conf/a.b/route_localnet', '1');
    assert.equal(readNetworkSetting(namespace, 'net/ipv4/ip_forward'), '1');
    assert.equal(readNetworkSetting(namespace, 'net/ipv4/conf/a.b/route_localnet'), '1');
    assert.equal(readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8'), before);
  });

  test('what is no setting of a network is refused', async (t) => {
    const namespace = await namespaceOf(t);
    for (const name of ['kernel/hostname', 'net/../kernel/hostname', '/etc/passwd', 'net/ipv4/conf/../../../x']) {
      assert.throws(() => writeNetworkSetting(namespace, name, '1'), /no setting of a network/);
    }
  });
});
