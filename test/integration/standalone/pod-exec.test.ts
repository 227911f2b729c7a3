import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { silentLogger } from '../../../src/base/index.ts';
import { findCgroupRoot, Sandboxes } from '../../../src/standalone/index.ts';
import { PodExecs } from '../../../src/standalone/supervisor/pod-exec.ts';
import { type EmbeddedApi, startEmbeddedApi, userToken } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { Kubectl, kubectlIsOlderThan } from '../../fixtures/kubectl.ts';

const execute = promisify(execFile);
const needsRoot = process.getuid?.() === 0 ? false : 'sandboxes mount: this test needs root';
const cgroupRoot = await findCgroupRoot('virt-node');
const viewerToken = 'viewer-token-of-the-tests';

describe('kubectl exec into a pod', { skip: needsRoot || kubectlIsOlderThan(31) }, () => {
  let dir: string;
  let api: EmbeddedApi;
  let kubectl: Kubectl;
  let sandboxes: Sandboxes;
  let uid: string;

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'pod-exec-'));
    const places = { podsDir: path.join(dir, 'pods'), libvirtCacheDir: path.join(dir, 'cache') };
    sandboxes = new Sandboxes({ ...places, cgroupRoot, programs: [] });
    const sandboxesOf = (node: string) => (node === 'node1' ? sandboxes : undefined);
    const podExec = new PodExecs({ sandboxesOf, log: silentLogger });
    const tokens = [
      { token: userToken, user: 'user' },
      {
        token: viewerToken,
        user: 'viewer',
        rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['get', 'list', 'watch'] }],
      },
    ];
    api = await startEmbeddedApi({ tokens }, { podExec });
    kubectl = new Kubectl(api.kubeconfig, dir);
    uid = await runningPod('guest', 'node1');
    await sandboxes.start({
      uid,
      namespace: 'default',
      name: 'guest',
      argv: ['/bin/sleep', '1000'],
      env: { PATH: '/usr/bin:/bin' },
      mounts: [],
      kvm: 'fails',
      logFile: path.join(dir, 'logs/compute.log'),
    });
    await eventually(async () => assert.equal((await sandboxes.inspect(uid)).kind, 'running'), 20_000);
  });

  after(async () => {
    await sandboxes.kill(uid);
    await eventually(async () => assert.equal((await sandboxes.inspect(uid)).kind, 'exited'), 20_000);
    await sandboxes.remove(uid);
    await api.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function runningPod(name: string, nodeName: string): Promise<string> {
    const pod = {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name } },
      spec: {
        nodeName,
        containers: [{ name: 'compute', image: 'launcher', env: [{ name: 'POD_NAME', value: name }] }],
        initContainers: [{ name: 'guest-console-log', image: 'launcher' }],
      },
    };
    await kubectl.run(['create', '-f', '-'], JSON.stringify(pod));
    const status = JSON.stringify({ status: { phase: 'Running' } });
    await kubectl.run(['patch', 'pod', name, '--subresource=status', '--type=merge', '-p', status]);
    return kubectl.run(['get', 'pod', name, '-o', 'jsonpath={.metadata.uid}']);
  }

  const exec = (...words: string[]) => kubectl.try(['exec', 'guest', ...words]);
  /** Processes of this pod, as the machine sees them. */
  async function commands(): Promise<string[]> {
    const state = await sandboxes.inspect(uid);
    const found = await execute('ls', [`/proc/${'init' in state ? state.init.pid : 0}/root/proc`]);
    const pids = found.stdout.split('\n').filter((name) => /^\d+$/.test(name));
    const root = `/proc/${'init' in state ? state.init.pid : 0}/root/proc`;
    return Promise.all(pids.map((pid) => readFile(`${root}/${pid}/cmdline`, 'utf8').catch(() => '')));
  }

  test('runs in the pod, with its variables, gives both outputs and the exit code', async () => {
    const script =
      'echo in $POD_NAME as $(id -u), process 1 is $(cat /proc/1/comm), home $HOME; echo trouble >&2; exit 7';
    const { code, stdout, stderr } = await exec('-c', 'compute', '--', 'sh', '-c', script);
    assert.equal(stdout, 'in guest as 0, process 1 is sh, home /root\n');
    assert.match(stderr, /^trouble\n/);
    assert.equal(code, 7, stderr);
    const place = await exec('--', 'sh', '-c', 'ls / | tr "\\n" " "; pwd; ls -l /proc/self/fd');
    assert.match(place.stdout, /^bin dev etc .* \/\n/);
    assert.doesNotMatch(place.stdout, /home|boot|(mnt|pid|net|ipc):\[/);
  });

  test('has the rights of the pod’s program and no more', async () => {
    const attempts = [
      'mount -t tmpfs tmpfs /mnt 2>/dev/null && echo mounted',
      'cat /proc/1/environ 2>/dev/null && echo "read of process 1"',
      'grep -E "^(CapBnd|CapEff|NoNewPrivs)" /proc/self/status',
      'grep -E "^(CapBnd|CapEff)" /proc/$(pidof sleep)/status',
    ];
    const { stdout } = await exec('--', 'sh', '-c', attempts.join('\n'));
    const [effective, bounds, noNew, ...program] = stdout.trim().split('\n');
    assert.deepEqual([effective, bounds], program);
    assert.match(noNew ?? '', /NoNewPrivs:\s*1/);
  });

  test('belongs to the pod’s cgroup', { skip: !cgroupRoot }, async () => {
    const { stdout } = await exec('--', 'cat', '/proc/self/cgroup');
    assert.match(stdout, new RegExp(`^0::.*/virt-node/${uid}$`, 'm'));
  });

  test('reads what is piped in, of any size, until its end', async () => {
    const text = 'line of the input\n'.repeat(200_000);
    const { code, stdout, stderr } = await kubectl.try(
      ['exec', '-i', 'guest', '--', 'sh', '-c', 'cat; echo end'],
      text,
    );
    assert.equal(code, 0, stderr);
    assert.ok(stdout === `${text}end\n`, `${stdout.length} of ${text.length + 4} characters`);
  });

  test('at a terminal: it has one, of the right size, is led by its keys, and ends with it', async () => {
    const env = { ...process.env, KUBECONFIG: api.kubeconfig, TERM: 'vt220' };
    const line = `stty cols 97 rows 31; kubectl exec -it guest -- sh`;
    const child = spawn('script', ['-qec', line, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    let shown = '';
    child.stdout.on('data', (chunk: Buffer) => {
      shown += chunk;
    });
    const shows = (pattern: RegExp) => eventually(() => assert.match(shown, pattern), 20_000);
    await shows(/# $/);
    child.stdin.write('stty size; tty; echo $((6 * 7)) jobs\r');
    await shows(/^31 97\r$/m);
    await shows(/^\/dev\/pts\/\d+\r$/m);
    child.stdin.write('sleep 998\r');
    await eventually(async () => assert.ok((await commands()).some((each) => each.includes('998'))), 10_000);
    child.stdin.write('\u0003');
    await eventually(async () => assert.ok(!(await commands()).some((each) => each.includes('998'))), 10_000);
    child.stdin.write('exit 3\r');
    const code = await new Promise((resolve) => child.once('exit', resolve));
    assert.equal(code, 3, shown);
  });

  test('ends with its client, and leaves no descriptor', async () => {
    const before = (await readdir('/proc/self/fd')).length;
    const client = kubectl.spawn(['exec', 'guest', '--', 'sleep', '999']);
    await eventually(async () => assert.ok((await commands()).some((each) => each.includes('999'))), 10_000);
    client.kill('SIGKILL');
    await eventually(async () => assert.ok(!(await commands()).some((each) => each.includes('999'))), 10_000);
    await eventually(async () => assert.ok((await readdir('/proc/self/fd')).length <= before + 1), 10_000);
  });

  test('what cannot be run is said', async () => {
    await runningPod('elsewhere', 'node2');
    await runningPod('gone', 'node1');
    const idle = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'idle' },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    };
    await kubectl.run(['create', '-f', '-'], JSON.stringify(idle));
    const cases: [string[], RegExp][] = [
      [['exec', 'guest', '--', 'no-such-program'], /no-such-program.*No such file|exit code 127/s],
      [['exec', 'guest', '-c', 'guest-console-log', '--', 'ls'], /has nothing to join on this node: use -c compute/],
      [['exec', 'guest', '-c', 'other', '--', 'ls'], /other/],
      [['exec', 'idle', '--', 'ls'], /it is Pending, not Running/],
      [['exec', 'elsewhere', '--', 'ls'], /the node node2 is not one of this machine/],
      [['exec', 'gone', '--', 'ls'], /it does not run \(none\)/],
      [['attach', 'guest'], /not implemented.*kubectl logs -f/],
      [['--token', viewerToken, 'exec', 'guest', '--', 'ls'], /forbidden/i],
    ];
    for (const [words, text] of cases) {
      const { code, stderr } = await kubectl.try(words);
      assert.notEqual(code, 0, words.join(' '));
      assert.match(stderr, text, words.join(' '));
    }
    const spdy = await kubectl.try(['exec', 'guest', '--', 'ls'], '', { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false' });
    assert.match(spdy.stderr, /kubectl 1\.31 and later/);
  });
});
