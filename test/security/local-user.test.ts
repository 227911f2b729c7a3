import assert from 'node:assert/strict';
import { chmod, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { attack, localUser } from '../fixtures/attacker.ts';
import { demoVmi, NodeProcess } from '../fixtures/node-process.ts';
import { abstractSocketsOf, commandLines, everyPath, familyOf, listeningPortsOf } from '../fixtures/node-traces.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

interface Taken {
  readonly worked: readonly { readonly act: string; readonly path: string }[];
  readonly tries: number;
}

interface Answer {
  readonly port: number;
  readonly path: string;
  readonly scheme: 'http' | 'https';
  readonly answer: number | string;
}

/** What an ordinary user of the machine gets of a node that runs a VM with a secret. */
describe('a local user and a standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let qemu: number;
  let pids: number[];

  before(async () => {
    node = await NodeProcess.create();
    // As an older version left it, and as `mkdir` makes it.
    await chmod(node.paths.stateDir, 0o755);
    await node.start();
    const vmi = demoVmi('guarded');
    vmi.spec.domain.devices = { ...vmi.spec.domain.devices, disks: [{ name: 'init', disk: { bus: 'virtio' } }] };
    vmi.spec.volumes = [{ name: 'init', cloudInitNoCloud: { secretRef: { name: 'creds' } } }];
    await node.kubectl('create', 'secret', 'generic', 'creds', '--from-literal=userdata=#!/bin/sh');
    await node.apply(vmi);
    await node.vmiUntil('guarded', (found) => found?.status?.phase === 'Running');
    qemu = (await node.qemuPid('guarded')) ?? 0;
    const pods = await Promise.all(
      (await readdir(node.paths.podsDir)).map((uid) =>
        readFile(path.join(node.paths.podsDir, uid, 'sandbox/shim'), 'utf8').then((text) => Number.parseInt(text, 10)),
      ),
    );
    pids = await familyOf([node.pid, qemu, ...pods]);
  });
  after(() => node.dispose());

  const users = [
    ['an ordinary user', localUser],
    ['a member of the host’s group 107', { ...localUser, groups: [107] }],
  ] as const;

  for (const [who, user] of users) {
    test(`${who} can neither list, read, write, rename, unlink nor connect to anything that the node made`, async () => {
      const paths = await everyPath(node.paths.stateDir);
      assert.ok(paths.length > 50 && paths.some((file) => file.endsWith('launcher-sock')), 'too little was made');
      const { worked, tries } = await attack<Taken>('take-files', user, { paths });
      assert.ok(tries >= paths.length);
      assert.deepEqual(
        worked.map(({ act, path: file }) => `${act} ${file}`),
        [],
      );
    });

    test(`${who} gets nothing of the node’s processes: memory, environment, files, roots, abstract sockets`, async () => {
      assert.ok(qemu > 0 && pids.includes(qemu) && pids.length >= 8, `only ${pids.length} processes`);
      const parts = ['environ', 'mem', 'maps', 'fd', 'cwd/.', 'root/run', 'root/run/kubevirt-private', 'map_files'];
      const paths = pids.flatMap((pid) => parts.map((part) => `/proc/${pid}/${part}`));
      const abstractSockets = await abstractSocketsOf(pids);
      const { worked } = await attack<Taken>('take-files', user, { paths, abstractSockets, below: false });
      assert.deepEqual(
        worked.map(({ act, path: file }) => `${act} ${file}`),
        [],
      );
    });
  }

  test('no command line tells a token', async () => {
    const token = (await readFile(path.join(node.paths.apiDir, 'token'), 'utf8')).trim();
    const page = /token=([\w-]+)/.exec(await readFile(node.paths.webAddress, 'utf8'))?.[1] ?? '';
    const others = await readdir(path.join(node.paths.apiDir, 'tokens'));
    const secrets = [token, page];
    for (const name of others) {
      secrets.push((await readFile(path.join(node.paths.apiDir, 'tokens', name), 'utf8')).trim());
    }
    assert.ok(secrets.length >= 5 && secrets.every((secret) => secret.length >= 32));
    const lines = await commandLines(pids);
    assert.deepEqual(
      lines.filter((line) => secrets.some((secret) => line.includes(secret))),
      [],
    );
  });

  test('the node’s ports answer nobody without a token or a certificate, but for health and figures', async () => {
    const ports = await listeningPortsOf(pids);
    assert.ok(ports.includes(26443) && ports.length >= 4, `ports: ${ports.join(', ')}`);
    const asked = ['/', '/api/v1/namespaces/default/secrets', '/apis/kubevirt.io/v1/virtualmachineinstances', '/why'];
    const vm = '/v1/namespaces/default/virtualmachineinstances/guarded';
    const paths = [...asked, `${vm}/console`, `${vm}/vnc`, '/api/vms', '/healthz', '/metrics', '/debug/pprof/'];
    const answers = await attack<Answer[]>('ask-ports', localUser, { ports, paths });
    const pagePort = Number(new URL(await readFile(node.paths.webAddress, 'utf8')).port);
    const metrics = answers.find(({ path: at, answer }) => at === '/metrics' && answer === 200)?.port;
    const config = ['get', 'cdiconfigs', 'config', '-o', 'jsonpath={.status.uploadProxyURL}'] as const;
    const uploadPort = Number(new URL(await node.kubectl(...config)).port);
    // Nothing secret is told there, and upstream's agent tells it to everybody, too: Prometheus asks without a name.
    const reported = answers.filter(({ answer }) => typeof answer === 'number' && answer < 400);
    const wrong = reported.filter(({ port, path: at }) => {
      const isHealth = at === '/healthz' && [26443, metrics, uploadPort].includes(port);
      // The page as everybody's browser gets it: it shows nothing before it has a session.
      const isPage = at === '/' && port === pagePort;
      return !isHealth && !isPage && (at !== '/metrics' || port !== metrics);
    });
    assert.deepEqual(
      wrong.map(({ port, path: at, scheme, answer }) => `${scheme} ${port} ${at}: ${answer}`),
      [],
    );
    const named = answers.filter(({ port, path: at }) => port === 26443 && asked.slice(1, 3).includes(at));
    assert.ok(named.some(({ answer }) => answer === 401));
  });
});
