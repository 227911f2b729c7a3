import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFigures } from '../../../../src/agent/migration-proxy/control-connection.ts';
import {
  configurationOf,
  type SourcePlan,
  type TargetPlan,
} from '../../../../src/agent/migration-proxy/haproxy-config.ts';
import { saysItKeepsOrder } from '../../../../src/agent/migration-proxy/haproxy-process.ts';
import { readTlsSettings } from '../../../../src/tls/index.ts';

const confined = {
  controlName: 'uid-target.sock',
  chroot: '/proc/7/root',
  user: { uid: 107, gid: 108 },
  setUpSeconds: 10,
  stallSeconds: 60,
  inOrder: true,
};
const target: TargetPlan = {
  ...confined,
  side: 'target',
  streams: [
    { role: 0, socket: '/var/run/libvirt/virtqemud-sock' },
    { role: 49_152, socket: '/var/run/kubevirt/migrationproxy/uid-49152-source.sock' },
  ],
  commonNames: ['a:b', 'c'],
  settings: readTlsSettings({ minTLSVersion: 'VersionTLS13' }),
};
const source: SourcePlan = {
  ...confined,
  side: 'source',
  address: 'fd00::1',
  streams: [{ role: 0, port: 40_001 }],
  commonName: 'the:server',
};

test('a target asks for a certificate and a name before it dials, and listens on what it was given', () => {
  const lines = configurationOf(target).split('\n');
  const bind = lines.filter((line) => line.startsWith('  bind '));
  assert.deepEqual(
    bind.map((line) => line.split(' ')[3]),
    ['fd@7', 'fd@8'],
  );
  assert.ok(bind.every((line) => / ssl .* verify required ssl-min-ver TLSv1\.3 /.test(line)));
  assert.equal(lines.filter((line) => line.endsWith('reject unless { ssl_c_s_dn(cn) -m str a:b c }')).length, 2);
  assert.ok(lines.includes('  server peer unix@/var/run/libvirt/virtqemud-sock maxconn 64'));
  assert.ok(lines.includes("  chroot '/proc/7/root'") && lines.includes('  uid 107') && lines.includes('  gid 108'));
});

test('a root launcher’s proxy has its rights, and names do not count when certificates are another’s', () => {
  const text = configurationOf({ ...target, user: { uid: 0, gid: 0 }, commonNames: 'any' });
  assert.doesNotMatch(text, /^ {2}[ug]id /m);
  assert.doesNotMatch(text, /reject/);
  assert.match(text, /verify required/);
  assert.doesNotMatch(configurationOf({ ...source, commonName: 'any' }), /verifyhost/);
});

test('a source dials an address, by its family, and asks for the server’s name', () => {
  assert.match(configurationOf(source), /^ {2}server peer ipv6@\[fd00::1\]:40001 ssl .* verifyhost the:server /m);
  assert.match(configurationOf({ ...source, address: '10.0.0.7' }), /^ {2}server peer ipv4@10\.0\.0\.7:40001 /m);
});

test('each role counts its connections when they are accepted, and its streams wait for their turn', () => {
  const lines = configurationOf(target).split('\n');
  assert.ok(lines.includes('  lua-load /dev/fd/6'));
  for (const role of [0, 49_152]) {
    assert.ok(lines.includes(`  set-var proc.accepted_${role} int(0)`));
    assert.ok(
      lines.includes(`  tcp-request connection set-var(proc.accepted_${role}) var(proc.accepted_${role}),add(1)`),
    );
    // Strangers are waited for no longer than a moment.
    assert.ok(lines.includes(`  filter lua.in_turn ${role} 1000`));
  }
  assert.match(configurationOf(source), /^ {2}filter lua\.in_turn 0 10000$/m);
  const without = configurationOf({ ...target, inOrder: false }) + configurationOf({ ...source, inOrder: false });
  assert.doesNotMatch(without, /lua|accepted|stick-table/);
});

test('a build keeps streams in order when it has Lua and is not older than 2.6', () => {
  const told = (version: string, lua = 'Built with Lua version : Lua 5.3.6') =>
    saysItKeepsOrder(`${version}\nStatus: long-term supported branch\nBuilt with network namespace support.\n${lua}\n`);
  for (const version of ['2.6.12-1+deb12u4', '2.10.0', '3.0.5'])
    assert.ok(told(`HAProxy version ${version} 2026/10/17`));
  for (const version of ['2.4.22', '1.9.0', '2']) assert.ok(!told(`HAProxy version ${version} 2026/10/17`));
  assert.ok(!told('HA-Proxy version 2.2.9-2+deb11u6 2023/12/10'));
  assert.ok(!told('HAProxy version 2.6.12', ''));
  assert.ok(!told(''));
  assert.ok(!saysItKeepsOrder(''));
});

test('nothing that comes from the cluster writes a line or a word', () => {
  const wrong = { code: 'BAD_REQUEST' };
  for (const address of ['', 'node', '10.0.0.1 check', 'fe80::1%eth0', '10.0.0.1\n', '$HOME']) {
    assert.throws(() => configurationOf({ ...source, address }), wrong);
  }
  for (const port of [0, -1, 65_536, 1.5, Number.NaN]) {
    assert.throws(() => configurationOf({ ...source, streams: [{ role: 0, port }] }), wrong);
  }
  for (const name of ['a b', 'a\n', '', '$x', '"', '#', 'a}']) {
    assert.throws(() => configurationOf({ ...target, commonNames: [name] }), wrong);
    assert.throws(() => configurationOf({ ...source, commonName: name }), wrong);
    assert.throws(() => configurationOf({ ...target, streams: [{ role: 0, socket: name }] }), wrong);
  }
  for (const chroot of ["/a'b", '/a\nb']) assert.throws(() => configurationOf({ ...source, chroot }), wrong);
});

test('figures are read by the names of their columns; what is none is refused', () => {
  const csv = '# pxname,scur,bin,bout,dreq,ssl_failed_handshake,\n49152,2,10,5,1,3,\n0,0,0,0,0,0,\n\n';
  assert.deepEqual(readFigures(csv), [
    { role: '49152', streams: 2, bytes: 15, refused: 4 },
    { role: '0', streams: 0, bytes: 0, refused: 0 },
  ]);
  assert.deepEqual(readFigures(''), []);
  assert.throws(() => readFigures('# pxname,scur\nf,many\n'), { code: 'UNREADABLE' });
  assert.throws(() => readFigures('Unknown command.\nf\n'), { code: 'UNREADABLE' });
});

test('frozen peers are noticed after the seconds that are set, whether data waits for them or not', () => {
  for (const plan of [source, target]) {
    const lines = configurationOf({ ...plan, stallSeconds: 30 }).split('\n');
    const tls = lines.filter((line) => line.includes(' ssl '));
    assert.ok(tls.length > 0 && tls.every((line) => line.includes(' tcp-ut 30s')), tls.join('\n'));
    for (const end of ['cli', 'srv']) {
      assert.deepEqual(
        lines.filter((line) => line.includes(`${end}tcpka`)),
        [`option ${end}tcpka`, `${end}tcpka-idle 15s`, `${end}tcpka-intvl 5s`, `${end}tcpka-cnt 3`].map(
          (line) => `  ${line}`,
        ),
      );
    }
  }
});
