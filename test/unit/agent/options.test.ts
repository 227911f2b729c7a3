import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AgentOptionsError, agentUsage, parseAgentOptions } from '../../../src/agent/index.ts';
import { FlagError } from '../../../src/base/index.ts';

const environment = { hostName: 'host7' };
const required = ['--pod-ip-address', '10.0.0.1'];

function parse(args: string[], more: object = {}) {
  const options = parseAgentOptions([...required, ...args], { ...environment, ...more });
  assert.ok(options);
  return options;
}

const upstream = [
  'v',
  'kubeconfig',
  'master',
  'listen',
  'port',
  'hostname-override',
  'pod-ip-address',
  'kubevirt-share-dir',
  'kubevirt-private-dir',
  'kubelet-pods-dir',
  'kubelet-root',
  'watchdog-timeout',
  'max-devices',
  'max-metric-requests',
  'console-server-port',
  'vmstats-server-port',
  'domain-resync-period-seconds',
  'graceful-shutdown-seconds',
  'enable-node-labeller',
  'migration-cn-types',
  'ca-configmap-name',
  'client-cert-file',
  'client-key-file',
  'migration-client-cert-file',
  'migration-client-key-file',
  'tls-cert-file',
  'tls-key-file',
  'vsock-client-cert-file',
  'vsock-client-key-file',
  'externally-managed',
];

const pairIn = (directory: string) => ({
  certFile: `/etc/virt-handler/${directory}/tls.crt`,
  keyFile: `/etc/virt-handler/${directory}/tls.key`,
});

test('the usage names exactly the flags of upstream, the one of the web page, and those of migrations', () => {
  const named = [...agentUsage().matchAll(/^ {2}(?:-\w, | {4})--([\w-]+)/gm)].map(([, name]) => name);
  assert.deepEqual(
    named.sort(),
    [
      ...upstream,
      ...['live-migration', 'migration-relay', 'migration-stall-seconds', 'post-copy-resume-seconds', 'web-port'],
    ].sort(),
  );
});

test('the arguments of upstream’s DaemonSet are understood', () => {
  const args =
    '--port 8443 --hostname-override node1 --pod-ip-address 10.1.2.3 --max-metric-requests 3 --console-server-port 8186 --vmstats-server-port 8187 --graceful-shutdown-seconds 315 -v 4';
  const options = parse(args.split(' '), { nodeName: 'node1' });
  assert.equal(options.nodeName, 'node1');
  assert.equal(options.podIp, '10.1.2.3');
  assert.equal(options.verbosity, 4);
});

test('defaults are those of upstream', () => {
  assert.deepEqual(parse([]), {
    verbosity: 2,
    kubeconfig: '',
    master: '',
    nodeName: 'host7',
    podIp: '10.0.0.1',
    shareDir: '/var/run/kubevirt',
    privateDir: '/var/run/kubevirt-private',
    podsDir: '/pods',
    watchdogTimeoutMs: 30_000,
    domainResyncPeriodMs: 300_000,
    gracefulShutdownMs: 300_000,
    console: {
      address: '0.0.0.0',
      port: 8186,
      keyPair: {
        certFile: '/etc/virt-handler/servercertificates/tls.crt',
        keyFile: '/etc/virt-handler/servercertificates/tls.key',
      },
      caConfigMap: { namespace: 'kubevirt', name: 'kubevirt-ca' },
      externallyManaged: false,
    },
    metrics: {
      address: '0.0.0.0',
      port: 8185,
      vmStatsPort: 8187,
      maxRequests: 3,
    },
    kubeletRoot: '/var/lib/kubelet',
    maxDevices: 1000,
    nodeLabels: true,
    webPort: 0,
    migration: {
      server: pairIn('servercertificates'),
      migrationClient: pairIn('migrationservercertificates'),
      client: pairIn('clientcertificates'),
      resumeMs: 300_000,
      isRelayed: false,
      stallSeconds: 20,
      clientTypes: ['virt-handler', 'migration'],
      externallyManaged: false,
    },
  });
});

test('a value follows its flag or an equals sign, a bare bool is true, a duration is Go’s', () => {
  const options = parse(['--watchdog-timeout=1m30s', '--externally-managed', '--enable-node-labeller=false', '-v=5']);
  assert.equal(options.watchdogTimeoutMs, 90_000);
  assert.equal(options.verbosity, 5);
});

test('live migrations are carried unless that is refused, in each form of a bool', () => {
  assert.notEqual(parse(['--live-migration']).migration, undefined);
  assert.notEqual(parse(['--live-migration=true']).migration, undefined);
  assert.equal(parse(['--live-migration=false']).migration, undefined);
  assert.deepEqual(
    [[], ['--migration-relay']].map((args) => parse(args).migration?.isRelayed),
    [false, true],
  );
});

test('no limit of scrapes is 0, as upstream’s', () => {
  assert.equal(parse(['--max-metric-requests', '0']).metrics.maxRequests, Number.POSITIVE_INFINITY);
});

const wrong: readonly (readonly [args: string[], says: RegExp])[] = [
  [['--no-such'], /unknown flag: --no-such/],
  [['-x'], /unknown flag: -x/],
  [['stray'], /unexpected argument: stray/],
  [['--port', 'many'], /invalid argument "many" for --port: not a int/],
  [['--watchdog-timeout', '30'], /not a duration/],
  [['--port'], /flag needs an argument/],
  [['--__proto__', 'x'], /unknown flag/],
  [['--constructor'], /unknown flag/],
];

for (const [args, says] of wrong) {
  test(`a wrong command line is refused in words: ${args.join(' ')}`, () => {
    assert.throws(
      () => parseAgentOptions(args, environment),
      (error) => error instanceof FlagError && says.test(error.message),
    );
  });
}

test('a missing address, two names for this node, and a period of nothing are start-up errors', () => {
  const refused = (args: string[], code: string, more = {}) =>
    assert.throws(
      () => parseAgentOptions(args, { ...environment, ...more }),
      (error) => error instanceof AgentOptionsError && error.code === code,
    );
  refused([], 'NO_POD_IP');
  refused(required, 'NODE_NAME_DIFFERS', { nodeName: 'node1' });
  refused([...required, '--watchdog-timeout', '0'], 'BAD_PERIOD');
});

test('frozen streams are ended after seconds that can be set, within bounds', () => {
  const seconds = (value: string) => parse(['--migration-stall-seconds', value]).migration?.stallSeconds;
  assert.deepEqual(['5', '600'].map(seconds), [5, 600]);
  for (const value of ['4', '0', '-1', '601']) {
    assert.throws(
      () => seconds(value),
      (error) =>
        error instanceof AgentOptionsError && error.code === 'BAD_PERIOD' && /between 5 and 600/.test(error.message),
    );
  }
});

test('--help is no error', () => {
  assert.equal(parseAgentOptions(['--help'], environment), undefined);
});
