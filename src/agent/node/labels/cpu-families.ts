import type { DomainFacts } from './documents.ts';
import { hasCpuModels, type Known, type LabelFacts } from './facts.ts';
import { type FamilyPlan, flag, type LabelFamily, named, planOf } from './family.ts';
import { type LabelSettings, whyObsolete } from './settings.ts';

const prefix = {
  feature: 'cpu-feature.node.kubevirt.io/',
  model: 'cpu-model.node.kubevirt.io/',
  migration: 'cpu-model-migration.node.kubevirt.io/',
  hostModel: 'host-model-cpu.node.kubevirt.io/',
  hostFeature: 'host-model-required-features.node.kubevirt.io/',
  vendor: 'cpu-vendor.node.kubevirt.io/',
} as const;

/** Set while the administrator calls the host's own model obsolete. */
export const obsoleteHostModel = 'node-labeller.kubevirt.io/obsolete-host-model';

const noModels = (arch: string) => `CPU models and features are not distinguished on ${arch}`;

export const cpuFeatures: LabelFamily = {
  name: 'cpu-feature',
  prefixes: [prefix.feature],
  keys: [],
  plan({ arch, features }) {
    if (!hasCpuModels(arch)) return planOf([{ key: prefix.feature, because: noModels(arch) }]);
    if (features.kind === 'unknown') return features;
    return planOf(features.value.map((name) => named(prefix.feature, name, `${features.from} requires it`)));
  },
};

/** Models that guests can have here. */
export const cpuModels: LabelFamily = {
  name: 'cpu-model',
  followsConfiguration: true,
  prefixes: [prefix.model],
  keys: [],
  plan: (facts, settings) =>
    fromModels(facts, prefix.model, (domain, from) => {
      const usable = new Set(domain.usableModels);
      return domain.knownModels.map((model) => {
        const obsolete = whyObsolete(model, settings);
        if (!usable.has(model)) {
          return { key: prefix.model + model, because: `${from} says that guests cannot use it on this machine` };
        }
        if (obsolete) return { key: prefix.model + model, because: obsolete };
        return named(prefix.model, model, `${from} says that guests can use it`);
      });
    }),
};

/** Models that libvirt knows: a guest of such a model may come from a node that has it. */
export const migrationModels: LabelFamily = {
  name: 'cpu-model-migration',
  followsConfiguration: true,
  prefixes: [prefix.migration],
  keys: [],
  plan: (facts, settings) =>
    fromModels(facts, prefix.migration, (domain, from) =>
      domain.knownModels.map((model) => {
        const obsolete = whyObsolete(model, settings);
        if (obsolete) return { key: prefix.migration + model, because: obsolete };
        return named(prefix.migration, model, `${from} knows it`);
      }),
    ),
};

/** The model that a guest with `host-model` gets. Without a name its features would be labels of nothing. */
export const hostModel: LabelFamily = {
  name: 'host-model-cpu',
  prefixes: [prefix.hostModel, prefix.hostFeature],
  keys: [],
  plan: (facts) =>
    fromModels(facts, prefix.hostModel, ({ hostModel: model }, from) => {
      if (!model?.name) return [{ key: prefix.hostModel, because: `${from} names no host model` }];
      return [
        named(prefix.hostModel, model.name, `${from} names it as the host model`),
        ...model.requiredFeatures.map((feature) =>
          named(prefix.hostFeature, feature, `${from} requires it of host model ${model.name}`),
        ),
      ];
    }),
};

export const cpuVendor: LabelFamily = {
  name: 'cpu-vendor',
  prefixes: [prefix.vendor],
  keys: [],
  plan: (facts) =>
    fromModels(facts, prefix.vendor, ({ hostModel: model }, from) => {
      const vendor = model?.vendor || (facts.arch === 's390x' && model ? 'IBM' : '');
      if (vendor === '') return [{ key: prefix.vendor, because: `${from} names no vendor of the host model` }];
      return [named(prefix.vendor, vendor, `${from} names it as the vendor of the host model`)];
    }),
};

export const obsoleteModel: LabelFamily = {
  name: 'obsolete-host-model',
  followsConfiguration: true,
  prefixes: [],
  keys: [obsoleteHostModel],
  plan: (facts, settings) =>
    fromModels(facts, obsoleteHostModel, (domain) => {
      const name = domain.hostModel?.name;
      const isObsolete = isHostModelObsolete(domain, settings);
      const yes = `obsoleteCPUModels of the KubeVirt object names host model ${name}`;
      const no = `obsoleteCPUModels of the KubeVirt object does not name the host model${name ? ` ${name}` : ''}`;
      return [flag(obsoleteHostModel, isObsolete, yes, no)];
    }),
};

/** The built-in list does not count here. */
export function isHostModelObsolete({ hostModel: model }: DomainFacts, { obsoleteModels }: LabelSettings): boolean {
  return model !== undefined && obsoleteModels?.includes(model.name) === true;
}

type Entries = (domain: DomainFacts, from: string) => Parameters<typeof planOf>[0];

function fromModels({ arch, domain }: LabelFacts, key: string, entries: Entries): FamilyPlan {
  if (!hasCpuModels(arch)) return planOf([{ key, because: noModels(arch) }]);
  return fromKnown(domain, entries);
}

export function fromKnown<T>(
  known: Known<T>,
  entries: (value: T, from: string) => Parameters<typeof planOf>[0],
): FamilyPlan {
  return known.kind === 'unknown' ? known : planOf(entries(known.value, known.from));
}
