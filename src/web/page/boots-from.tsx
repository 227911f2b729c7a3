import { fileSize } from '../file-size.ts';
import { Field, Suggested } from './fields.tsx';
import { type Offers, ownClaimOf, problemOf, type VmForm, type VmFormProps } from './vm-form.ts';
import { isKept, usualRootSize } from './vm-form-root.ts';

const sources: Readonly<Record<VmForm['source'], string>> = {
  image: 'An image of this node',
  copy: 'A disk of its own: a copy of an image',
  address: 'A disk of its own: from an address',
  clone: 'A disk of its own: a copy of a claim',
  iso: 'An ISO image, which installs onto a disk',
  claim: 'A claim that has a system',
};

/** What it boots, and how. */
export function Booting({ form, offers, problems, onChange }: VmFormProps) {
  const images = offers.images.filter(
    ({ boots }) => boots === 'disk' || (boots === 'kernel' && form.source === 'image'),
  );
  return (
    <fieldset class="card">
      <legend>Boots from</legend>
      <Field id="source" label="Source" problem="">
        {(a11y) => (
          <select
            {...a11y}
            value={form.source}
            onChange={({ currentTarget }) => onChange(sourceChange(form, currentTarget.value))}>
            {Object.entries(sources).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      {form.source === 'address' && (
        <Field
          id="url"
          label="Address"
          hint="http(s); raw, qcow2, ISO, VMDK; gzip, xz"
          problem={problemOf(problems, 'url')}>
          {(a11y) => (
            <input
              {...a11y}
              type="url"
              autocomplete="off"
              spellcheck={false}
              value={form.url}
              onInput={({ currentTarget }) => onChange({ url: currentTarget.value.trim() })}
            />
          )}
        </Field>
      )}
      {(form.source === 'claim' || form.source === 'clone') && (
        <Field
          id="claim"
          label={form.source === 'clone' ? 'Claim to copy' : 'Claim'}
          problem={problemOf(problems, 'claim')}>
          {(a11y) => (
            <Suggested
              a11y={a11y}
              value={form.claim}
              options={offers.claims}
              onChange={(claim) => onChange({ claim })}
            />
          )}
        </Field>
      )}
      {['image', 'iso', 'copy'].includes(form.source) && (
        <Field
          id="image"
          label={form.source === 'iso' ? 'ISO image' : 'Image'}
          hint={imageHint(form, offers)}
          problem={problemOf(problems, 'image')}>
          {(a11y) => (
            <Suggested
              a11y={a11y}
              value={form.image}
              options={images.map(({ reference }) => reference)}
              onChange={(image) => onChange({ image })}
            />
          )}
        </Field>
      )}
      {isKept(form.source) && (
        <Field
          id="root-size"
          label="Size of the disk"
          hint={form.source === 'clone' ? 'empty: as large as the claim' : usualRootSize}
          problem={problemOf(problems, 'rootSize')}>
          {(a11y) => (
            <input
              {...a11y}
              autocomplete="off"
              value={form.rootSize}
              onInput={({ currentTarget }) => onChange({ rootSize: currentTarget.value.trim() })}
            />
          )}
        </Field>
      )}
      <Field id="firmware" label="Firmware" problem={problemOf(problems, 'firmware')}>
        {(a11y) => (
          <select
            {...a11y}
            value={form.firmware}
            onChange={({ currentTarget }) => onChange({ firmware: currentTarget.value === 'efi' ? 'efi' : 'bios' })}>
            <option value="bios">BIOS</option>
            <option value="efi">EFI</option>
          </select>
        )}
      </Field>
    </fieldset>
  );
}

/** What is installed is to be there afterwards. */
function sourceChange(form: VmForm, value: string): Partial<VmForm> {
  const source = isSource(value) ? value : 'image';
  const needsDisk = source === 'iso' && form.disk === 'none';
  const needsSize = source === 'copy' || source === 'address';
  return {
    source,
    ...(needsDisk && { disk: 'claim', diskClaim: ownClaimOf(form.name) }),
    ...(isKept(source) && { rootSize: needsSize ? form.rootSize || usualRootSize : '' }),
  };
}

function isSource(value: string): value is VmForm['source'] {
  return Object.hasOwn(sources, value);
}

function imageHint({ image, source }: VmForm, { images, imagesProblem }: Offers): string {
  if (imagesProblem !== undefined) return `The images of the node cannot be listed now: ${imagesProblem}.`;
  if (images.length === 0) return 'There is no image on this node yet: upload one.';
  const found = images.find(({ reference }) => reference === image);
  if (!found) return image === '' ? '' : 'This image is not on the node yet: the machine waits for it.';
  const kept = source === 'image' ? '; what is changed on it is lost when the machine stops' : '';
  return `${fileSize(found.sizeBytes)}${found.boots === 'kernel' ? ', a kernel with its RAM disk' : ''}${kept}`;
}
