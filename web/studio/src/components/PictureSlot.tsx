import { type DragEvent, useId, useRef, useState } from "react";
import { useObjectUrl } from "../hooks/useObjectUrl";
import type { Sample } from "../services/door";
import { useWords } from "../words";
import { Icon } from "./Icon";
import styles from "./PictureSlot.module.css";

interface Props {
  label: string;
  file: File | null;
  samples: Sample[];
  isClip: boolean;
  onChoose: (file: File | null) => void;
}

/** What a sample shows, in the page's language. */
function nameOf(sample: Sample, names: Record<string, string>): string {
  const name = sample.name.replace(/\.\w+$/, "");
  return names[name] ?? name;
}

/** A place for a picture: dropped, chosen, or one of the samples. Pasting is the stage's affair. */
export function PictureSlot({ label, file, samples, isClip, onChoose }: Props) {
  const words = useWords();
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const url = useObjectUrl(file);

  const dropped = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const [first] = event.dataTransfer.files;
    if (first) onChoose(first);
  };
  const dragged = (event: DragEvent) => {
    event.preventDefault();
    setOver(true);
  };
  const takeSample = async (sample: Sample) => {
    const answer = await fetch(`/studio/samples/${sample.name}`);
    if (answer.ok) onChoose(new File([await answer.blob()], sample.name, { type: sample.media_type }));
  };

  return (
    <section
      className={`${styles.slot} ${isOver ? styles.over : ""} ${file ? styles.full : ""}`}
      aria-labelledby={`${id}-label`}
      onDrop={dropped}
      onDragOver={dragged}
      onDragLeave={() => setOver(false)}
    >
      <h2 className={styles.label} id={`${id}-label`}>
        {label}
      </h2>
      <input
        ref={input}
        id={id}
        className={styles.input}
        type="file"
        accept={isClip ? "image/gif,image/webp,image/png,video/*" : "image/*,.heic,.heif"}
        onChange={(event) => {
          const [first] = event.target.files ?? [];
          if (first) onChoose(first);
          event.target.value = "";
        }}
      />
      {file ? (
        <>
          <div className={styles.preview}>
            {url && <img src={url} alt={file.name} onError={(event) => event.currentTarget.remove()} />}
            <span className={styles.behind}>
              <Icon name="picture" size={32} />
              {file.name}
            </span>
          </div>
          <div className={styles.acts}>
            <label className={styles.act} htmlFor={id}>
              {words.replace}
            </label>
            <button type="button" className={styles.act} onClick={() => onChoose(null)}>
              {words.takeAway}
            </button>
          </div>
        </>
      ) : (
        <div className={styles.invite}>
          <span className={styles.sign}>
            <Icon name={isClip ? "video_upscaler" : "picture"} size={30} />
          </span>
          <p className={styles.drop}>{isClip ? words.dropClip : words.drop}</p>
          <p className={styles.or}>
            {words.orPaste}{" "}
            <label className={styles.choose} htmlFor={id}>
              {words.choose}
            </label>
          </p>
          {samples.length > 0 && (
            <div className={styles.samples}>
              <p className={styles.hint}>{isClip ? words.sampleClips : words.samples}</p>
              <ul className={styles.row}>
                {samples.map((sample) => (
                  <li key={sample.name}>
                    <button
                      type="button"
                      className={styles.sample}
                      aria-label={nameOf(sample, words.sampleNames)}
                      onClick={() => takeSample(sample)}
                    >
                      <img src={`/studio/samples/${sample.name}`} alt="" />
                    </button>
                  </li>
                ))}
              </ul>
            </div>
          )}
        </div>
      )}
    </section>
  );
}
