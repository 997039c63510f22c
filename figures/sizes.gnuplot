# Draws sizes.svg: gnuplot sizes.gnuplot. Source of the figures: docs/reference/performance.md,
# "Messages from 64 bytes to 2 KiB".
set terminal svg size 900,420 dynamic background 'white' font 'sans-serif,14'
set output 'sizes.svg'
set title 'Messages from 64 bytes to 2 KiB'
set xlabel 'bytes'
set logscale x 2
set xtics (64, 128, 256, 512, 1024, 2048)
set ylabel 'microseconds, one way'
set yrange [0:1.2]
set y2label 'million messages per second'
set y2range [0:10]
set ytics nomirror
set y2tics
set grid xtics ytics
set key outside bottom center horizontal
$sizes << EOD
64 0.31 0.66 7.9
128 0.31 0.68 7.1
256 0.32 0.65 5.8
384 0.38 0.80 5.9
512 0.39 0.79 5.4
640 0.50 0.84 4.2
768 0.50 0.85 4.2
1000 0.52 0.87 4.2
1024 0.53 0.85 4.2
1536 0.54 0.86 4.1
2048 0.55 0.87 3.8
EOD
plot $sizes using 1:2 with linespoints title 'latency, shared cache' lc rgb '#d55e00' lw 2 pt 7, \
  $sizes using 1:3 with linespoints title 'latency, none shared' lc rgb '#d55e00' lw 2 dt 2 pt 6, \
  $sizes using 1:4 axes x1y2 with linespoints title 'rate (right), shared cache' lc rgb '#0072b2' lw 2 pt 5
