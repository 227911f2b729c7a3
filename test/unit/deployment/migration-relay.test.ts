import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { suite, test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { agentFlags } from '../../../src/agent/flags.ts';
import { parseAgentOptions } from '../../../src/agent/index.ts';
import { parseRelayOptions, relayDirectory } from '../../../src/agent/migration-proxy/index.ts';

/** What the component adds fits both programs, and gives the relay no more than the guide says. That these rights are enough is shown with real HAProxy. */

const read = (file: string) => readFileSync(path.join('daemonset', file), 'utf8');
const documents = parseAllDocuments(read('components/migration-relay/relay.yaml')).map((item) => item.toJS());
const [account, daemonSet] = documents;
const { template, updateStrategy, selector } = daemonSet.spec;
const pod = template.spec;
const [container] = pod.containers;

function options() {
  const args = container.args.map((arg: string) => arg.replace('$(MY_POD_IP)', '10.0.0.1'));
  const parsed = parseRelayOptions(args);
  assert.ok(parsed);
  return parsed;
}

suite('the DaemonSet of the relay', () => {
  test('starts a program of the image of this version with arguments that it takes', () => {
    const { version, bin } = JSON.parse(readFileSync('package.json', 'utf8'));
    assert.equal(container.image, `localhost/virt-handler:${version}`);
    const [program] = container.command;
    assert.ok(existsSync(`src/bin/${program}.ts`) && program in bin);
    assert.match(
      readFileSync('image/root.mjs', 'utf8'),
      new RegExp(`const programs = \\['virt-handler', '${program}', `),
    );
    assert.equal(options().podIp, '10.0.0.1');
  });

  test('has its one directory where the agent looks for it, on the host and in both pods', () => {
    const expected = relayDirectory(agentFlags['kubevirt-private-dir'].fallback);
    assert.equal(options().directory, expected);
    const [{ hostPath }, ...others] = pod.volumes;
    assert.deepEqual([hostPath, others], [{ path: expected, type: 'DirectoryOrCreate' }, []]);
    assert.deepEqual(container.volumeMounts, [{ name: pod.volumes[0].name, mountPath: expected }]);
  });

  test('has no way to the API server', () => {
    assert.deepEqual([account.automountServiceAccountToken, pod.automountServiceAccountToken], [false, false]);
    assert.equal(pod.serviceAccountName, account.metadata.name);
    assert.deepEqual(
      documents.map(({ kind }) => kind),
      ['ServiceAccount', 'DaemonSet'],
    );
    const roles = read('base/rbac.yaml');
    assert.ok(!roles.includes(account.metadata.name));
  });

  test('has the capabilities that the guide has a reason for, and no others', () => {
    const [, table = ''] = read('README.md').split('| Capability of the relay |');
    const rows =
      table
        .split('\n\n')[0]
        ?.split('\n')
        .filter((line) => line.startsWith('| `')) ?? [];
    const reported = rows.flatMap((line) =>
      [...(line.split(' | ')[0] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    const { capabilities, ...rest } = container.securityContext;
    assert.deepEqual(capabilities, { drop: ['ALL'], add: reported });
    assert.deepEqual(
      [rest.privileged, rest.allowPrivilegeEscalation, rest.readOnlyRootFilesystem, pod.hostPID, pod.hostNetwork],
      [false, false, true, true, undefined],
    );
  });

  test('is replaced by a person only, and may leave before it is killed', () => {
    assert.deepEqual(updateStrategy, { type: 'OnDelete' });
    assert.ok(pod.terminationGracePeriodSeconds * 1000 >= options().gracefulShutdownMs + 10_000);
  });

  test('is no agent to those that look for agents by their label', () => {
    const { labels } = template.metadata;
    assert.deepEqual(labels, selector.matchLabels);
    assert.notEqual(labels['kubevirt.io'], 'virt-handler');
  });
});

test('the agent of the overlay is told to use the relay, by a flag that it takes', () => {
  const patch: { op: string; path: string; value: string }[] = parse(read('components/migration-relay/agent.yaml'));
  assert.deepEqual(
    patch.map(({ op, path: where }) => [op, where]),
    [['add', '/spec/template/spec/containers/0/args/-']],
  );
  const args = ['--pod-ip-address', '10.0.0.1', ...patch.map(({ value }) => value)];
  assert.equal(parseAgentOptions(args, { hostName: 'node1' })?.migration?.isRelayed, true);
});

test('the relay’s arguments are refused in words where they cannot be used', () => {
  const given = ['--pod-ip-address', '10.0.0.1'];
  assert.throws(() => parseRelayOptions([]), /--pod-ip-address is missing/);
  assert.throws(() => parseRelayOptions([...given, '--directory', 'here']), /absolute path/);
  assert.throws(() => parseRelayOptions([...given, '--graceful-shutdown-seconds', '-1']), /less than 0/);
  assert.throws(() => parseRelayOptions([...given, '--migration-stall-seconds', '4']), /between 5 and 600/);
  assert.equal(parseRelayOptions([...given, '--migration-stall-seconds', '7'])?.stallSeconds, 7);
  assert.equal(parseRelayOptions(['--help']), undefined);
});
