import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { SecureVersion } from 'node:tls';
import { serverCommonName } from '../../../../src/tls/index.ts';
import { AgentBench, embeddedLoopApi } from '../../../fixtures/agent-bench.ts';
import { TestAuthority } from '../../../fixtures/certificates.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import type { LauncherProcess } from '../../../fixtures/launcher-process.ts';
import { promtool } from '../../../fixtures/promtool.ts';
import { tlsRequest } from '../../../fixtures/tls-request.ts';
import { largestCounter, lyingVmStats, recordedVmStats } from '../../../fixtures/vm-stats.ts';

const monitoring = 'kubevirt.io:system:client:monitoring';

/** The real agent, its certificates, launchers that answer, and one that hangs. */
suite('metrics and health of the real agent', () => {
  let bench: AgentBench;
  let authority: TestAuthority;
  let hungLauncher: LauncherProcess;

  /** Of the agent that runs now. */
  const portOf = (server: string): number => {
    const said = bench.program
      .log()
      .split('\n')
      .filter((line) => line.includes(`"${server} server listens"`))
      .at(-1);
    return Number(/"address":"[^"]*:(\d+)"/.exec(said ?? '')?.[1]);
  };
  const ask = async (route: string, method = 'GET') => {
    const answer = await tlsRequest({
      ...{ port: portOf('metrics'), client: undefined, ca: authority.pair.cert, path: route, method },
    });
    assert.ok('body' in answer, `${route}: ${JSON.stringify(answer)}`);
    return answer;
  };
  const scrape = async () => (await ask('/metrics')).body;
  const figureOf = (text: string, name: string) => Number(text.split(`\n${name} `)[1]?.split('\n')[0]);

  before(async () => {
    authority = await TestAuthority.make();
    bench = await AgentBench.start(embeddedLoopApi, { proxied: true });
    const { certFile, keyFile } = bench.program.serverPair;
    const pair = await authority.issue({ commonName: serverCommonName, usage: 'serverAuth' });
    mkdirSync(path.dirname(certFile), { recursive: true });
    writeFileSync(keyFile, pair.key);
    writeFileSync(certFile, pair.cert);
    await eventually(async () => void (await ask('/livez')));
  });
  after(async () => {
    await bench?.dispose();
    await authority?.remove();
  });

  test('a scrape has the figures of the VMs and of the agent, and promtool finds no fault that upstream does not have', async () => {
    await bench.play('first', { vmStats: recordedVmStats(), hasFilesystems: true });
    await eventually(async () =>
      assert.match(await scrape(), /kubevirt_vmi_cpu_usage_seconds_total\{.*name="first".*\} 12\.5/),
    );
    const text = await scrape();
    const { output } = await promtool(['check', 'metrics'], text);
    // Upstream's names that promtool's taste is against: kept, for dashboards know them.
    const ours = output.split('\n').filter((line) => line !== '' && !/^kubevirt_(vmi|virt_handler_ready)_/.test(line));
    assert.deepEqual(ours, []);
    for (const name of ['kubevirt_vmi_filesystem_used_bytes', 'kubevirt_vmi_dirty_rate_bytes_per_second'])
      assert.match(text, new RegExp(name));
    assert.match(text, /\nkubevirt_virt_handler_ready_status 0\n|\nkubevirt_virt_handler_ready_status 1\n/);
    assert.match(text, /kubevirt_vmi_sync_total\{namespace="default",name="first"\} [1-9]/);
    assert.match(text, /kubevirt_workqueue_adds_total\{name="virt-handler-vm"\} [1-9]/);
    assert.match(text, /kubevirt_virt_handler_passes_total\{rule="[a-z-]+",outcome="done"\} [1-9]/);
    assert.match(
      text,
      /kubevirt_rest_client_requests_total\{code="200",method="GET",host="[^"]+",resource="virtualmachineinstances",verb="LIST"\} [1-9]/,
    );
    assert.match(text, /kubevirt_virt_handler_certificate_expiration_timestamp_seconds\{pair="server"\} 1\d{9}/);
    assert.match(text, /kubevirt_virt_handler_last_success_age_seconds\{what="heartbeat"\} /);
    assert.equal(figureOf(text, 'kubevirt_virt_handler_starts'), 1);
  });

  test('every metric that the dashboard and the alerts name is there', async () => {
    const text = await scrape();
    const sources = ['monitoring/grafana-dashboard.json', 'monitoring/prometheus-rules.yaml'];
    const names = sources.flatMap(
      (file) => readFileSync(file, 'utf8').match(/\b(?:kubevirt|process|nodejs)_\w+/g) ?? [],
    );
    const families = new Set(names.map((name) => name.replace(/_bucket$/, '')));
    assert.ok(families.size > 30, `only ${families.size} found`);
    assert.deepEqual(
      [...families].filter((name) => !text.includes(`\n# TYPE ${name} `)),
      // Nothing migrates here; their names are held against upstream's by a unit test.
      [...families].filter((name) => name.startsWith('kubevirt_vmi_migration_')),
    );
  });

  test('each family has one head, and no series comes twice', async () => {
    const text = await scrape();
    const heads = text.split('\n').filter((line) => line.startsWith('# TYPE'));
    assert.equal(new Set(heads.map((line) => line.split(' ')[2])).size, heads.length);
    const series = text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.slice(0, line.lastIndexOf(' ')));
    assert.deepEqual(
      series.filter((one, at) => series.indexOf(one) !== at),
      [],
    );
  });

  test('a launcher that hangs costs its own series only, and no scrape its time', async () => {
    hungLauncher = (await bench.play('hung', { hasFilesystems: true })).launcher;
    await hungLauncher.hang('getDomainStats');
    await eventually(async () => {
      const text = await scrape();
      assert.match(
        text,
        /kubevirt_virt_handler_vm_sample_errors_total\{namespace="default",name="hung",source="stats"\} [1-9]/,
      );
      assert.match(text, /kubevirt_vmi_filesystem_used_bytes\{.*name="hung"/);
    }, 60_000);
    const startMs = performance.now();
    const text = await scrape();
    assert.ok(performance.now() - startMs < 4_000, 'a call takes five seconds until it is given up');
    assert.match(text, /kubevirt_vmi_cpu_usage_seconds_total\{.*name="first"/);
  });

  test('health is told in upstream’s shape, with ages of ours', async () => {
    const healthz = await ask('/healthz');
    assert.equal(healthz.status, 200);
    const body = JSON.parse(healthz.body);
    assert.equal(body.apiserver.connectivity, 'ok');
    assert.equal(typeof body.apiserver.version.gitVersion, 'string');
    assert.equal(typeof body.lastSuccessSecondsAgo.heartbeat, 'number');
    assert.equal((await ask('/livez')).status, 200);
    const readyz = await ask('/readyz');
    assert.equal(readyz.status, 503);
    assert.match(readyz.body, /no bundle of authorities/);
    const text = await scrape();
    assert.equal(figureOf(text, 'kubevirt_virt_handler_ready_status'), 1, 'its port is open, as upstream tells it');
    assert.equal(figureOf(text, 'kubevirt_virt_handler_ready'), 0);
    assert.match(text, /\nkubevirt_virt_handler_not_ready\{reason="AuthoritiesMissing"\} 1\n/);
  });

  test('profiles are off, other paths and methods are refused in words', async () => {
    for (const route of ['/start-profiler', '/stop-profiler', '/dump-profiler']) {
      const { status, body } = await ask(route);
      assert.equal(status, 403, route);
      assert.match(body, /clusterProfiler/);
    }
    assert.equal((await ask('/')).status, 404);
    assert.equal((await ask('/__proto__')).status, 404);
    assert.equal((await ask('/metrics', 'POST')).status, 405);
  });

  test('statistics of VMs are for the monitoring client, and off without their gate', async () => {
    const metadata = { namespace: 'kubevirt', name: 'kubevirt-ca' };
    const data = { 'ca-bundle': authority.pair.cert };
    const configMaps = '/api/v1/namespaces/kubevirt/configmaps';
    assert.equal((await bench.api.admin.post(configMaps, { kind: 'ConfigMap', metadata, data })).status, 201);
    const port = portOf('VM statistics');
    const call = async (commonName: string, route = '/v1/vmstats?domainStats=true') =>
      tlsRequest({ port, client: await authority.issue({ commonName }), ca: authority.pair.cert, path: route });
    await eventually(async () => {
      const answer = await call(monitoring);
      assert.ok('body' in answer, JSON.stringify(answer));
      assert.equal(answer.status, 403);
      assert.match(answer.body, /VMStatsCollector/);
    });
    assert.ok('refused' in (await call('kubevirt.io:system:client:virt-handler')));
    await eventually(async () => assert.equal((await ask('/readyz')).status, 200));
    const text = await scrape();
    assert.equal(figureOf(text, 'kubevirt_virt_handler_ready'), 1);
    assert.doesNotMatch(text, /\nkubevirt_virt_handler_not_ready\{/);
    assert.match(text, /kubevirt_virt_handler_certificate_expiration_timestamp_seconds\{pair="ca"\} 1\d{9}/);
  });

  test('with its gate on they are told by VM, what was asked for and nothing else', async () => {
    const configuration = { developerConfiguration: { featureGates: ['VMStatsCollector'], clusterProfiler: true } };
    const kubevirts = '/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts';
    const made = await bench.api.admin.post(kubevirts, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { namespace: 'kubevirt', name: 'kubevirt' } },
      spec: { configuration },
      status: { phase: 'Deployed' },
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    // A CRD with a status subresource takes no status from a POST.
    await bench.api.admin.patch(`${kubevirts}/kubevirt/status`, 'merge', { status: { phase: 'Deployed' } });
    const client = await authority.issue({ commonName: monitoring });
    const call = (query: string) =>
      tlsRequest({ port: portOf('VM statistics'), client, ca: authority.pair.cert, path: `/v1/vmstats${query}` });
    await bench.play('liar', { vmStats: lyingVmStats[0] ?? {} });
    await hungLauncher.hang('getVmStats');
    await eventually(async () => {
      const answer = await call('?domainStats=true&dirtyRate=false&guestGetLoad=1');
      assert.ok('body' in answer);
      assert.equal(answer.status, 200, answer.body);
      const reported = JSON.parse(answer.body);
      assert.deepEqual(Object.keys(reported).sort(), ['default/first', 'default/hung', 'default/liar']);
      const { stats } = reported['default/first'];
      assert.equal(stats.DomainStats.Name, 'default_vm');
      assert.ok(answer.body.includes(`"RxBytes":${largestCounter}`));
      assert.match(reported['default/liar'].error, /no usable domainStats/);
      assert.equal(reported['default/hung'].stats, undefined);
      assert.ok(reported['default/hung'].error.length > 0);
    }, 60_000);
    const none = await call('?domainStats=TRUE&guestGetLoad');
    assert.ok('body' in none);
    assert.equal(none.status, 400);
    assert.match(none.body, /guestGetLoad/);
  });

  test('a profile of the processor and of memory can be taken while it is allowed', async () => {
    await eventually(async () => assert.equal((await ask('/start-profiler')).status, 200));
    assert.equal((await ask('/start-profiler')).status, 500);
    assert.equal((await ask('/stop-profiler')).status, 200);
    const { status, body } = await ask('/dump-profiler');
    assert.equal(status, 200);
    const { pprofData } = JSON.parse(body);
    assert.deepEqual(Object.keys(pprofData).sort(), ['cpu', 'heap']);
    assert.ok(JSON.parse(Buffer.from(pprofData.cpu, 'base64').toString()).nodes.length > 0);
    // A question about the head of an answer begins nothing.
    assert.equal((await ask('/start-profiler', 'HEAD')).status, 405);
    assert.equal((await ask('/stop-profiler')).status, 500);
  });

  test('a profile ends when it is no longer allowed, and nothing of it is given away later', async () => {
    const allow = (clusterProfiler: boolean) =>
      bench.api.admin.patch('/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt', 'merge', {
        spec: { configuration: { developerConfiguration: { clusterProfiler } } },
      });
    assert.equal((await ask('/start-profiler')).status, 200);
    await allow(false);
    await eventually(async () => assert.equal((await ask('/dump-profiler')).status, 403));
    await allow(true);
    await eventually(async () => {
      const answer = await ask('/stop-profiler');
      assert.equal(answer.status, 500);
      assert.match(answer.body, /no profile is being taken/);
    });
    assert.match((await ask('/dump-profiler')).body, /there is no profile/);
  });

  test('versions of TLS that the KubeVirt object forbids are refused on the metrics port, too', async () => {
    const setMinimum = (tlsConfiguration: object | null) =>
      bench.api.admin.patch('/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt', 'merge', {
        spec: { configuration: { tlsConfiguration } },
      });
    const by = (version: SecureVersion) =>
      tlsRequest({
        ...{ port: portOf('metrics'), client: undefined, ca: authority.pair.cert, path: '/livez' },
        tls: { minVersion: version, maxVersion: version },
      });
    assert.ok('body' in (await by('TLSv1.2')));
    await setMinimum({ minTLSVersion: 'VersionTLS13' });
    await eventually(async () => assert.ok('refused' in (await by('TLSv1.2'))));
    const answer = await by('TLSv1.3');
    assert.ok('body' in answer);
    assert.equal(answer.protocol, 'TLSv1.3');
    await setMinimum(null);
    await eventually(async () => assert.ok('body' in (await by('TLSv1.2'))));
  });

  test('while the API server is away everything is told, healthz fails and livez does not', async () => {
    await bench.proxy.down();
    await eventually(async () => assert.equal((await ask('/healthz')).status, 500), 60_000);
    assert.equal((await ask('/livez')).status, 200);
    assert.equal((await ask('/readyz')).status, 200);
    assert.match(await scrape(), /kubevirt_vmi_cpu_usage_seconds_total\{.*name="first"/);
    await bench.proxy.up();
    await eventually(async () => assert.equal((await ask('/healthz')).status, 200), 60_000);
  });

  test('an agent that waits for the API server can be asked already, and counts its starts', async () => {
    bench.proxy.failAll({ resource: 'virtualmachineinstances' }, { kind: 'status', code: 503 });
    await bench.killAgent();
    const before = bench.program.log().split('"metrics server listens"').length;
    bench.spawnAgent();
    await eventually(() => assert.ok(bench.program.log().split('"metrics server listens"').length > before));
    await eventually(async () => {
      assert.equal((await ask('/livez')).status, 200);
      const readyz = await ask('/readyz');
      assert.equal(readyz.status, 503);
      assert.match(readyz.body, /have not been listed yet/);
      assert.equal(figureOf(await scrape(), 'kubevirt_virt_handler_starts'), 2);
    });
    bench.proxy.heal();
    await bench.untilServing();
  });

  test('series go with their VM', async () => {
    await eventually(async () => assert.match(await scrape(), /name="first"/));
    await bench.delete('first');
    await eventually(async () => assert.doesNotMatch(await scrape(), /name="first"/), 60_000);
  });
});
