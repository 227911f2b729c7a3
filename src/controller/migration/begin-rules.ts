import { labels, migrationEnd, migrationRefusal } from '../../api/index.ts';
import { phaseOf } from './facts.ts';
import { type Facts, fails, goesTo, type MigrationRule } from './plan.ts';

const firstPhases = { source: 'Synchronizing', target: 'WaitingForSync', none: 'Pending' } as const;

const isNew = (facts: Facts) => phaseOf(facts) === '';

/** Whether a new migration is taken at all. */
export const beginRules: readonly MigrationRule[] = [
  {
    name: 'not-admitted',
    why: 'Label and finalizer are stored before anything of the migration exists outside of it.',
    when: (facts) =>
      isNew(facts) && facts.migration.metadata.labels?.[labels.migrationVmi] !== facts.migration.spec.vmiName,
    plan: () => ({ steps: [], change: { kind: 'admit' } }),
  },
  {
    name: 'another-in-flight',
    why: 'Another migration of this VMI is under way: this one is refused.',
    when: (facts) => isNew(facts) && facts.rival !== undefined,
    plan: ({ rival, vmi }) => {
      const name = rival?.name ?? '';
      const text = `in-flight migration detected. Active migration job (${name}) is currently already in progress for VMI ${vmi?.metadata.name}.`;
      return fails('InFlightMigration', text);
    },
  },
  {
    name: 'not-migratable',
    why: 'The VMI says that it cannot migrate: the migration is refused.',
    when: ({ vmi, ...facts }) =>
      vmi !== undefined &&
      phaseOf(facts) in { '': 0, Pending: 0 } &&
      migrationRefusal(vmi, facts.migration) !== undefined &&
      facts.target.kind === 'none',
    plan: ({ vmi, migration }) => fails('NotMigratable', (vmi && migrationRefusal(vmi, migration)) ?? ''),
  },
  {
    name: 'accepted',
    why: 'Nothing speaks against the migration; its target pod is made as soon as limits allow, and the other half is known where there is one.',
    when: isNew,
    plan: ({ migration }) => goesTo(firstPhases[migrationEnd(migration) ?? 'none']),
  },
];
