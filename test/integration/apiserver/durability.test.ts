import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ApiChildProgram } from '../../fixtures/api-child-process.ts';
import type { ApiClient } from '../../fixtures/api-client.ts';

const rounds = 20;
const writers = 8;

describe('kill -9', () => {
  let dir: string;
  let program: ApiChildProgram;

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'durability-'));
    program = await ApiChildProgram.build();
  });
  after(async () => {
    await program?.dispose();
    await rm(dir, { recursive: true, force: true });
  });

  test(`in ${rounds} rounds at any moment loses no acknowledged write, shows no half one and no revision twice`, async () => {
    const maps = '/api/v1/namespaces/default/configmaps';
    /** Per name: count of the last acknowledged write, of the last one asked for, and the highest version seen. */
    const acknowledged = new Map<string, number>();
    const asked = new Map<string, number>();
    let highest = 0;
    let total = 0;

    /** Writes until the server is gone. The padding makes half a write visible. */
    const write = async (client: ApiClient, name: string) => {
      for (;;) {
        const count = (asked.get(name) ?? 0) + 1;
        asked.set(name, count);
        const data = { count: String(count), padding: String(count).repeat(500) };
        try {
          const put = await client.put(`${maps}/${name}`, { metadata: { name }, data });
          const { status, body } = put.status === 404 ? await client.post(maps, { metadata: { name }, data }) : put;
          if (status !== 200 && status !== 201) throw new Error(`${status}: ${JSON.stringify(body)}`);
          acknowledged.set(name, count);
          highest = Math.max(highest, Number(body.metadata.resourceVersion));
          total++;
        } catch (error) {
          if (error instanceof Error && /ECONNRESET|ECONNREFUSED|EPIPE|socket hang up/.test(String(error))) return;
          throw error;
        }
      }
    };

    for (let round = 0; round < rounds; round++) {
      const client = await program.start(dir);
      const { body } = await client.get(maps);
      const stored = new Map<string, { data: Record<string, string>; metadata: { resourceVersion: string } }>(
        body.items.map((item: { metadata: { name: string } }) => [item.metadata.name, item]),
      );
      for (const [name, count] of acknowledged) {
        const found = stored.get(name);
        assert.ok(found, `round ${round}: ${name} was acknowledged and is gone`);
        const present = Number(found.data.count);
        assert.ok(present >= count, `round ${round}: ${name} has write ${present}, ${count} was acknowledged`);
        assert.ok(present <= (asked.get(name) ?? 0));
        assert.equal(found.data.padding, String(present).repeat(500), `round ${round}: half a write of ${name}`);
      }
      assert.ok(Number(body.metadata.resourceVersion) >= highest, 'the revision went back');
      highest = Math.max(highest, Number(body.metadata.resourceVersion));
      const names = Array.from({ length: writers }, (_, index) => `map-${index}`);
      const writing = names.map((name) => write(client, name));
      // Killed in the middle of writing, after a number of writes that differs from round to round.
      const enough = total + 5 + Math.floor(Math.random() * 150);
      while (total < enough) await new Promise((resolve) => setTimeout(resolve, 1));
      await program.kill();
      await Promise.all(writing);
    }
    assert.ok(total > rounds * 10, `only ${total} writes`);
  });
});
