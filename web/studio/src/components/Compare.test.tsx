import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { Compare } from "./Compare";

afterEach(cleanup);

test("the handle is a slider with a name, and says where it is", () => {
  render(<Compare before={<img alt="Before" />} after={<img alt="After" />} />);
  const slider = screen.getByRole("slider", { name: "Compare before and after" });
  expect(slider.getAttribute("aria-valuetext")).toBe("50 % before");
  fireEvent.change(slider, { target: { value: "20" } });
  expect(slider.getAttribute("aria-valuetext")).toBe("20 % before");
  expect(slider.parentElement?.style.getPropertyValue("--at")).toBe("20%");
  expect(screen.getByAltText("Before")).toBeTruthy();
  expect(screen.getByAltText("After")).toBeTruthy();
});
