import { useState } from 'preact/hooks';
import { Booting } from './boots-from.tsx';
import { Choice, Field, Suggested } from './fields.tsx';
import { cloudConfig, ownClaimOf, problemOf, type VmForm, type VmFormProps } from './vm-form.ts';

/** A VM in fields. */
export function VmFormView(props: VmFormProps) {
  return (
    <div class="form">
      <div class="form-column">
        <Naming {...props} />
        <Sizing {...props} />
      </div>
      <div class="form-column">
        <Booting {...props} />
        <Disk {...props} />
      </div>
      <div class="form-column">
        <Access {...props} />
      </div>
    </div>
  );
}

function Naming({ form, offers, problems, onChange }: VmFormProps) {
  return (
    <fieldset class="card">
      <legend>Machine</legend>
      <Field id="name" label="Name" problem={problemOf(problems, 'name')}>
        {(a11y) => (
          <input
            {...a11y}
            required
            autocomplete="off"
            spellcheck={false}
            autocapitalize="off"
            value={form.name}
            onInput={({ currentTarget }) => onChange({ name: currentTarget.value.trim() })}
          />
        )}
      </Field>
      <Field id="namespace" label="Namespace" problem={problemOf(problems, 'namespace')}>
        {(a11y) => (
          <Choice
            a11y={a11y}
            value={form.namespace}
            options={offers.namespaces}
            onChange={(namespace) => onChange({ namespace })}
          />
        )}
      </Field>
      <label class="check">
        <input
          type="checkbox"
          checked={form.isStarted}
          onChange={({ currentTarget }) => onChange({ isStarted: currentTarget.checked })}
        />
        Start it, and start it again when it ends
      </label>
    </fieldset>
  );
}

function Sizing({ form, offers, problems, onChange }: VmFormProps) {
  const isOwn = form.instancetype === '';
  return (
    <fieldset class="card">
      <legend>Size</legend>
      {(offers.instancetypes.length > 0 || !isOwn) && (
        <Field
          id="instancetype"
          label="Instance type"
          hint={offers.sizes.get(form.instancetype) ?? ''}
          problem={problemOf(problems, 'instancetype')}>
          {(a11y) => (
            <Choice
              a11y={a11y}
              value={form.instancetype}
              options={['', ...offers.instancetypes]}
              none="its own CPUs and memory"
              onChange={(instancetype) => onChange({ instancetype })}
            />
          )}
        </Field>
      )}
      {(offers.preferences.length > 0 || form.preference !== '') && (
        <Field id="preference" label="Preference" problem={problemOf(problems, 'preference')}>
          {(a11y) => (
            <Choice
              a11y={a11y}
              value={form.preference}
              options={['', ...offers.preferences]}
              none="none"
              onChange={(preference) => onChange({ preference })}
            />
          )}
        </Field>
      )}
      {isOwn && (
        <>
          <Field id="cores" label="CPUs" problem={problemOf(problems, 'cores')}>
            {(a11y) => (
              <input
                {...a11y}
                type="number"
                min={1}
                placeholder="1"
                value={form.cores}
                onInput={({ currentTarget }) => onChange({ cores: currentTarget.value })}
              />
            )}
          </Field>
          <Field id="memory" label="Memory" hint="512Mi, 4Gi" problem={problemOf(problems, 'memory')}>
            {(a11y) => (
              <input
                {...a11y}
                autocomplete="off"
                spellcheck={false}
                value={form.memory}
                onInput={({ currentTarget }) => onChange({ memory: currentTarget.value.trim() })}
              />
            )}
          </Field>
        </>
      )}
      <Field id="network" label="Network" problem="">
        {(a11y) => (
          <select
            {...a11y}
            value={form.network}
            onChange={({ currentTarget }) => onChange({ network: currentTarget.value === 'none' ? 'none' : 'pod' })}>
            <option value="pod">Pod network (masquerade)</option>
            <option value="none">None</option>
          </select>
        )}
      </Field>
    </fieldset>
  );
}

function Disk({ form, offers, claimSize, makesClaim, onChange, onClaimSize }: VmFormProps) {
  return (
    <fieldset class="card">
      <legend>Disk</legend>
      <Field id="disk" label="Kind" problem="">
        {(a11y) => (
          <select
            {...a11y}
            value={form.disk}
            onChange={({ currentTarget }) => onChange(diskChange(form, currentTarget.value))}>
            <option value="none">None</option>
            <option value="claim">Kept: a claim</option>
            <option value="scratch">Scratch: empty at each start</option>
          </select>
        )}
      </Field>
      {form.disk === 'scratch' && (
        <Field id="disk-size" label="Size" hint="2Gi" problem="">
          {(a11y) => (
            <input
              {...a11y}
              value={form.diskSize}
              onInput={({ currentTarget }) => onChange({ diskSize: currentTarget.value.trim() })}
            />
          )}
        </Field>
      )}
      {form.disk === 'claim' && (
        <Field id="disk-claim" label="Claim" problem="">
          {(a11y) => (
            <Suggested
              a11y={a11y}
              value={form.diskClaim}
              options={offers.claims}
              onChange={(diskClaim) => onChange({ diskClaim })}
            />
          )}
        </Field>
      )}
      {makesClaim && (
        <Field id="claim-size" label="Size of the new claim" hint="10Gi" problem="">
          {(a11y) => (
            <input
              {...a11y}
              value={claimSize}
              onInput={({ currentTarget }) => onClaimSize(currentTarget.value.trim())}
            />
          )}
        </Field>
      )}
    </fieldset>
  );
}

function diskChange({ name }: VmForm, value: string): Partial<VmForm> {
  if (value === 'claim') return { disk: 'claim', diskClaim: ownClaimOf(name) };
  return value === 'scratch' ? { disk: 'scratch', diskSize: '2Gi' } : { disk: 'none' };
}

const nobody = { user: '', password: '', key: '' };

/** Fields for what most want, which write the text that cloud-init reads; the text itself for the rest. */
function Access({ form, onChange }: VmFormProps) {
  const [login, setLogin] = useState(nobody);
  const isByHand = form.userData !== cloudConfig(login);
  const change = (fields: Partial<typeof nobody>) => {
    const changed = { ...login, ...fields };
    setLogin(changed);
    onChange({ userData: cloudConfig(changed) });
  };
  return (
    <fieldset class="card">
      <legend>Access (cloud-init)</legend>
      {isByHand ? (
        <p class="hint">
          The user data below is written by hand.{' '}
          <button type="button" onClick={() => change({})}>
            Begin anew
          </button>
        </p>
      ) : (
        <>
          <Field id="login-user" label="User" problem="">
            {(a11y) => (
              <input
                {...a11y}
                autocomplete="off"
                value={login.user}
                onInput={({ currentTarget }) => change({ user: currentTarget.value })}
              />
            )}
          </Field>
          <Field id="login-password" label="Password" problem="">
            {(a11y) => (
              <input
                {...a11y}
                type="password"
                autocomplete="new-password"
                value={login.password}
                onInput={({ currentTarget }) => change({ password: currentTarget.value })}
              />
            )}
          </Field>
          <Field id="login-key" label="SSH public keys" hint="one a line" problem="">
            {(a11y) => (
              <textarea
                {...a11y}
                class="code"
                rows={2}
                spellcheck={false}
                value={login.key}
                onInput={({ currentTarget }) => change({ key: currentTarget.value })}
              />
            )}
          </Field>
        </>
      )}
      <Field id="user-data" label="User data" problem="">
        {(a11y) => (
          <textarea
            {...a11y}
            class="code"
            rows={5}
            spellcheck={false}
            value={form.userData}
            onInput={({ currentTarget }) => onChange({ userData: currentTarget.value })}
          />
        )}
      </Field>
    </fieldset>
  );
}
